"""Metrics as ratio forms: what is counted, and which sums of products make its numerator and denominator."""
