"""The paper's tables and figures, from our implementation and every baseline, beside the printed values."""
