"""A paper's figures are drawn through the command line."""

from tests.app.conftest import answer, dpaudit, valid_pictures

__all__ = ["answer", "dpaudit", "valid_pictures"]
