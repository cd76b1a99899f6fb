"""The certificate: proof and experiment side by side, with everything that was not checked."""
