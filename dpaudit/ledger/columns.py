"""Many releases of Gaussian or Laplace noise in columns, as they are read from a ledger and accounted for.

A ledger of a million lines is held in them: a validated release costs some kilobytes and ten microseconds, a
row of numbers a hundred bytes and none.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dpaudit.claims.guarantees import ZCDP, PureDP, leading_figure
from dpaudit.claims.sensitivity import L1, L2, Basis
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism, Gaussian, Laplace

Kind = Literal["gaussian", "laplace"]
Numbers: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
_Entry = TypeVar("_Entry", np.bool_, np.float64)

#: A release in columns was made fewer times, so that the runs of a billion are counted without rounding.
MOST_RUNS = 10**9


class PlainNoise(NamedTuple):
    """A Gaussian (`scale` is sigma) or Laplace mechanism: equal ones are equal, and hash alike."""

    kind: Kind
    basis: Basis
    sensitivity: float
    scale: float

    @functools.lru_cache(maxsize=1024)  # noqa: B019  (keeps numbers alone)
    def mechanism(self) -> Gaussian | Laplace:
        """Return the mechanism with these numbers; most lines of a ledger share theirs with others."""
        if self.kind == "gaussian":
            return Gaussian(sigma=self.scale, sensitivity=L2(self.sensitivity, self.basis))
        return Laplace(scale=self.scale, sensitivity=L1(self.sensitivity, self.basis))


def plain_noise(mechanism: AnyMechanism) -> PlainNoise | None:
    """Return a mechanism as plain numbers; None if it is neither Gaussian nor Laplace."""
    if not isinstance(mechanism, Gaussian | Laplace):
        return None
    sensitivity = mechanism.sensitivity
    scale = mechanism.sigma if isinstance(mechanism, Gaussian) else mechanism.scale
    return PlainNoise(mechanism.kind, sensitivity.basis, sensitivity.value, scale)


def is_plain(release: Release) -> bool:
    """Return whether columns can hold a release: its mechanism, count and claim have a place there."""
    plain = isinstance(release.mechanism, Gaussian | Laplace) and release.count < MOST_RUNS
    return plain and isinstance(release.claimed, ZCDP | PureDP | None)


def _noise_of(form: Release) -> PlainNoise:
    noise = plain_noise(form.mechanism)
    assert noise is not None, form  # noqa: S101  (`is_plain`)
    return noise


def with_own(form: Release, label: str, noise: PlainNoise) -> Release:
    """Return a release that differs from `form` in its label and its noise alone."""
    if label == form.label and noise == plain_noise(form.mechanism):
        return form
    fields = dict(form) | {"label": label, "mechanism": noise.mechanism()}
    return Release.model_construct(form.model_fields_set, **fields)


class PlainReleases(Sequence[Release]):
    """Releases [n] in columns: each is one of a few `forms` with a label and a noise scale of its own.

    All other fields that `Release` has, whichever they are, stand in the forms alone. A scale of NaN stands
    for a release that has no place in columns.
    """

    def __init__(
        self, forms: Sequence[Release], which: NDArray[np.intp], labels: Sequence[str], scale: Numbers
    ) -> None:
        self.forms, self.which = forms, which
        self.labels, self.scale = labels, scale
        self.noise = [_noise_of(form) for form in forms]

    @classmethod
    def of(cls, releases: Sequence[Release]) -> "PlainReleases":
        """Return the same releases, each a form of its own."""
        forms = [one if is_plain(one) else _NOT_PLAIN for one in releases]
        made = cls(forms, np.arange(len(forms)), [one.label for one in releases], np.empty(0))
        made.scale = np.array(
            [np.nan if one is _NOT_PLAIN else its.scale for one, its in zip(forms, made.noise, strict=True)]
        )
        return made

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Release]: ...
    def __getitem__(self, index: int | slice) -> Release | Sequence[Release]:
        """Return the release at an index, or a list of those in a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        form = self.which[index]
        noise = self.noise[form]._replace(scale=float(self.scale[index]))
        return with_own(self.forms[form], self.labels[index], noise)

    def noises(self) -> Iterator[tuple[PlainNoise, Release]]:
        """Yield each release's noise, and its form."""
        for form, scale in zip(self.which.tolist(), self.scale.tolist(), strict=True):
            kind, basis, sensitivity, _ = self.noise[form]
            yield PlainNoise(kind, basis, sensitivity, scale), self.forms[form]

    @functools.cached_property
    def gaussian(self) -> Flags:
        """Which are of Gaussian noise; the others are of Laplace noise."""
        return self._each(np.bool_, (one.kind == "gaussian" for one in self.noise))

    @functools.cached_property
    def basis(self) -> NDArray[np.str_]:
        """What each one's sensitivity rests on."""
        return np.array([one.basis for one in self.noise], np.str_)[self.which]

    @functools.cached_property
    def sensitivity(self) -> Numbers:
        """The sensitivities."""
        return self._each(np.float64, (one.sensitivity for one in self.noise))

    @functools.cached_property
    def runs(self) -> Numbers:
        """How often each is made; whole numbers."""
        return self._each(np.float64, (form.count for form in self.forms))

    @functools.cached_property
    def pure(self) -> Flags:
        """For which a pure epsilon is claimed."""
        return self._each(np.bool_, (isinstance(form.claimed, PureDP) for form in self.forms))

    @functools.cached_property
    def claimed(self) -> Numbers:
        """The rho or pure epsilon that is claimed; NaN where nothing is."""
        claims = (form.claimed for form in self.forms)
        return self._each(np.float64, (np.nan if one is None else leading_figure(one) for one in claims))

    def _each(self, kind: type[_Entry], values: Iterator[Any]) -> NDArray[_Entry]:
        return np.fromiter(values, kind, len(self.forms))[self.which]


_NOT_PLAIN: Final = Release(label="-", mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
