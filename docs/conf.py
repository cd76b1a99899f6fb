"""How sphinx builds these pages: `nox -s docs`, where every warning is an error."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Any

import dpaudit

project = "dpaudit"
project_copyright = "the dpaudit authors"
version = release = installed_version("dpaudit")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"dpaudit {release}"

# docs/reference.md is made of docstrings. Pydantic's own methods and settings are no part of what they say.
autodoc_default_options = {"exclude-members": "model_config, model_post_init", "member-order": "bysource"}
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 90


def link_to_the_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A type that is named by the file that holds it is found under the name that users import.

    A type of Python's, of numpy's or of the inside has no page here, and stays as plain text.
    """
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rpartition(".")[2]
    public = f"dpaudit.{name}"
    if name in dpaudit.__all__ and node["reftarget"] != public:
        domain = env.get_domain("py")
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, contnode)
    return contnode


def plain_text(*documented: Any) -> None:
    """Docstrings are written to be read as they are: |x| is a norm, and **more are arguments."""
    lines = documented[-1]
    for place, written in enumerate(lines):
        parts = written.split("``")
        parts[::2] = [part.replace("|", r"\|").replace("**", r"\*\*") for part in parts[::2]]
        lines[place] = "``".join(parts)


def setup(app: Any) -> None:
    """Called by sphinx."""
    app.connect("autodoc-process-docstring", plain_text, priority=400)  # before napoleon, which writes markup
    app.connect("missing-reference", link_to_the_public_name)
