"""The least noise that meets a target."""
