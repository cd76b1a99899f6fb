"""A data set's budget over many runs, durable and shared: reserve before a run, spend after it.

>>> import tempfile, os
>>> from dpaudit import ZCDP
>>> from dpaudit.accountants.book import Book
>>> with tempfile.TemporaryDirectory() as folder, Book(os.path.join(folder, "book.sqlite")) as book:
...     account = book.open_account("patients", ZCDP(rho=1.0), unit="patient", neighbouring="replace-one")
...     reservation = book.reserve("patients", ZCDP(rho=0.25), note="mortality by ward")
...     book.account("patients").remaining
ZCDP(kind='zcdp', rho=0.75)
"""

from dpaudit.accountants.book.accounts import Account, Entry, Event
from dpaudit.accountants.book.book import Book

__all__ = ["Account", "Book", "Entry", "Event"]
