"""Online reinforcement learning: Private LSVI-UCB and LDP-UCRL-VTR."""
