"""The exact composition of privacy losses, by a contour integral between proved bounds."""

from __future__ import annotations

from dpaudit.accountants.privacy_loss.factors_from_terms import Composed
from dpaudit.accountants.privacy_loss.profile import PrivacyLoss
from dpaudit.accountants.privacy_loss.solve import Bracket
from dpaudit.accountants.privacy_loss.terms import (
    ApproxTerm,
    BoundedRangeTerm,
    DiscreteTerm,
    GaussianTerm,
    LaplaceTerm,
    PureTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
    Term,
)

__all__ = [
    "ApproxTerm",
    "BoundedRangeTerm",
    "Bracket",
    "Composed",
    "DiscreteTerm",
    "GaussianTerm",
    "LaplaceTerm",
    "PrivacyLoss",
    "PureTerm",
    "RandomizedResponseTerm",
    "SampledGaussianTerm",
    "SampledLaplaceTerm",
    "Term",
]
