"""Federated logistic regression."""
