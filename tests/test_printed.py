"""Texts that differ in the last digits of a computed number are the same; any other two are not."""

import pytest

from tests.printed import is_printed

SHOWN = "epsilon 5.192583445889377, delta 1e-05, 12 releases\n"


@pytest.mark.parametrize("printed", [SHOWN, SHOWN.replace("9377", "9374"), SHOWN.replace("377,", "4, ")])
def test_the_last_digits_may_differ(printed: str) -> None:
    assert is_printed(printed, SHOWN)


@pytest.mark.parametrize("change", ["5.19/5.18", "58344/58345", "12 /13 ", "1e-05/1e-06", "\n/", "377/377e1"])
def test_nothing_else_may(change: str) -> None:
    assert not is_printed(SHOWN.replace(*change.split("/")), SHOWN)
