"""Liao, He and Gu (2023): LDP-UCRL-VTR for linear mixture processes."""
