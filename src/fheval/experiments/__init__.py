"""The paper's tables and figures, benchmarks and attacks: what is measured, and how."""
