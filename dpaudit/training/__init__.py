"""Training loops of other libraries, each step through a curator: Opacus, PyTorch and JAX."""
