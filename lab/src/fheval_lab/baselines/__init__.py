"""What fheval is compared with: pooling, TensorFlow's metric, differential privacy, MPC, homomorphic division."""
