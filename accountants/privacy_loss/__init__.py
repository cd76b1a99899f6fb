"""The exact composition of privacy losses, by a contour integral between proved bounds."""

from dpaudit.accountants.privacy_loss.factors_from_terms import Composed as Composed
from dpaudit.accountants.privacy_loss.profile import PrivacyLoss as PrivacyLoss
from dpaudit.accountants.privacy_loss.solve import Bracket as Bracket
from dpaudit.accountants.privacy_loss.terms import ApproxTerm as ApproxTerm
from dpaudit.accountants.privacy_loss.terms import BoundedRangeTerm as BoundedRangeTerm
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm as DiscreteTerm
from dpaudit.accountants.privacy_loss.terms import GaussianTerm as GaussianTerm
from dpaudit.accountants.privacy_loss.terms import LaplaceTerm as LaplaceTerm
from dpaudit.accountants.privacy_loss.terms import PureTerm as PureTerm
from dpaudit.accountants.privacy_loss.terms import RandomizedResponseTerm as RandomizedResponseTerm
from dpaudit.accountants.privacy_loss.terms import ReplacedGaussianTerm as ReplacedGaussianTerm
from dpaudit.accountants.privacy_loss.terms import SampledGaussianTerm as SampledGaussianTerm
from dpaudit.accountants.privacy_loss.terms import SampledLaplaceTerm as SampledLaplaceTerm
from dpaudit.accountants.privacy_loss.terms import Term as Term
