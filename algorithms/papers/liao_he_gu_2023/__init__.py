"""Liao, He and Gu (2023): LDP-UCRL-VTR for linear mixture processes."""

FIGURES = {
    "liao-he-gu-2023-figure-2": "regret under local privacy on RiverSwim",
}
EARLIER = {"003-figure-2": "liao-he-gu-2023-figure-2"}
