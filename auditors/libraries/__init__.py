"""Targets written for other libraries, whose noise is routed through a curator."""
