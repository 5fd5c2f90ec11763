"""The app of a simulated round."""
