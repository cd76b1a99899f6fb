"""How sphinx builds these pages: `nox -s docs`, where every warning is an error."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "dpaudit"
project_copyright = "the dpaudit authors"
version = release = installed_version("dpaudit")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"dpaudit {release}"
