"""The laboratory of fheval: attacks on its protocols, the paper's tables and figures, benchmarks, baselines."""
