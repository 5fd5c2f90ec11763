"""OpenFHE, the paper's library, behind the interface of `fheval.engines.base`; `engine` has it whole."""
