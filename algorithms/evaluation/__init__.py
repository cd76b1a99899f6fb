"""Public names: policy evaluation."""
