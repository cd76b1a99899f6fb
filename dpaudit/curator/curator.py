"""The curator: the only way by which private data leaves an algorithm.

It draws the noise and writes the ledger in one call, so the two cannot drift apart. Live, noiseless,
recorded and replayed runs are curators with other noise sources, never patched algorithms.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.claims.arguments import lengths, number, whole
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.claims.sensitivity import Basis, Norm
from dpaudit.curator.admission import CORE, Admission, Filter, Stated, as_query, require_count
from dpaudit.curator.batches import Batches, Clipping
from dpaudit.curator.calls import complete
from dpaudit.curator.clipping import OF_EACH, bounded, doubles, require_unmasked
from dpaudit.curator.local import Users, UserSchedule
from dpaudit.curator.mapping import mapped
from dpaudit.curator.noise import Given, NoiseSource, Question, SharedNoise, Transcript
from dpaudit.curator.purity.reader import knows_its_argument_alone
from dpaudit.curator.records import SameRecords, listed
from dpaudit.curator.streams import NoisyFunction, Stream
from dpaudit.curator.thresholds import Comparisons
from dpaudit.curator.tuning import BestOf, best_of
from dpaudit.curator.turns import SampledStream
from dpaudit.errors import InvalidParameter, ScheduleBroken, UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.places import released_at
from dpaudit.ledger.releases import Partition, Release
from dpaudit.mechanisms import (
    OWN_KINDS,
    AnyMechanism,
    Array,
    Exponential,
    GaussianProcess,
    GaussianSparseVector,
    InTurns,
    KeySelection,
    MatrixMechanism,
    OnSample,
    OpaqueMechanism,
    PrivateSelection,
    RandomAllocation,
    ReportNoisyMax,
    SampledMatrix,
    SampledSum,
    Shuffled,
    SmoothGaussian,
    SparseVector,
    StreamMechanism,
    TreeAggregation,
    ValueMechanism,
)
from dpaudit.mechanisms.selecting.keys import Keys, decoded, encode, require_counted
from dpaudit.mechanisms.selecting.shuffled import counted
from dpaudit.noise.contributions import clip_rows, count_cells, holding_whole, square_above
from dpaudit.noise.grid import FINEST, OnGrid, grid_of_bound, require_in_reach
from dpaudit.noise.randomness import Randomness
from dpaudit.noise.sums import gram, total
from dpaudit.registry import from_wing

if TYPE_CHECKING:
    from dpaudit.tables.table import Table

__all__ = ["Curator", "Filter", "UserCurator"]

#: Draws an output from a value and a generator.
Sampler: TypeAlias = Callable[[Array, np.random.Generator], ArrayLike]
#: Is told the label, the value and the sampler of a release.
SamplerWatcher: TypeAlias = Callable[[str, Array, Sampler], object]


#: What is released by which method: the mechanisms' names, and what others call the same.
_MEANT: dict[str, str] = {
    **{kind.replace("-", "_"): model.released_by or "release_sum" for kind, model in OWN_KINDS.items()},
    **dict.fromkeys(("choose", "choice", "noisy_max", "permute_and_flip", "argmax"), "select"),
    **dict.fromkeys(("add_noise", "noise", "sample", "answer", "query"), "release"),
    **dict.fromkeys(("sum", "mean", "average", "clipped_sum"), "release_sum"),
    **dict.fromkeys(("count", "counts", "histogram"), "release_counts"),
    **dict.fromkeys(("prefix_sums", "tree", "continual"), "stream"),
}


class NoSuchMethod(UsageError, AttributeError):
    """A curator has no such method."""


class Curator(Admission):
    """Answers an algorithm's queries with noise, and writes each into the ledger.

    What a method takes as `**stated` are the fields of `dpaudit.curator.admission.Stated`: ``partition`` and
    ``claimed``, which mean what they do in `release`, and ``sample``, for `release_sum` alone.

    Args:
        ledger: where every release is written before its output is returned.
        noise: live noise by default, seeded by the operating system.
        budget: a privacy filter; it raises before anything is sampled that would exceed it.
        transcript: where queries and outputs are kept for an auditor; private.
        public_seed: seeds the public random streams; whoever reads the output may know it.
    """

    def __init__(
        self,
        ledger: Ledger,
        noise: NoiseSource | None = None,
        *,
        budget: Filter | None = None,
        transcript: Transcript | None = None,
        public_seed: int = 0,
    ) -> None:
        super().__init__(ledger, noise, budget=budget, transcript=transcript)
        self.public_seed = whole(public_seed, "Curator(public_seed=)")
        self._streams: dict[str, np.random.Generator] = {}
        self._users = Users(ledger)
        #: Internal: see `samplers_watched`.
        self.sampler_watcher: SamplerWatcher | None = None

    def __getattr__(self, name: str) -> NoReturn:
        """Say what may have been meant by a method that there is not; raises `NoSuchMethod`."""
        known = [own for own in vars(Curator) if not own.startswith("_")]
        wanted = _MEANT.get(name) or next(iter(difflib.get_close_matches(name, known, n=1)), None)
        hint = f"did you mean `{wanted}`?" if wanted else f"it has {', '.join(known)}"
        why = "all that leaves an algorithm is released by one of a curator's own methods"
        if hasattr(np.random.Generator, name):
            plain = "an algorithm that draws its own noise is audited with --plain, in Python as a Plain"
            hint = f"{plain}; {hint}"
        raise NoSuchMethod(f"a curator has no {name!r}", where="curator", why=why, remedy=hint)

    def release(
        self,
        value: ArrayLike | OnGrid,
        mechanism: AnyMechanism | ValueMechanism,
        *,
        label: str,
        count: int = 1,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
        sample: str | None = None,
    ) -> Array:
        """Release a vector, a matrix or a number through a mechanism.

        >>> from dpaudit import L1, Laplace, run
        >>> def count(rows, curator):
        ...     return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
        >>> run(count, ["a", "b"], seed=7).ledger.releases[0].mechanism.scale
        2.0

        Args:
            value: the query's answer, in doubles or exactly; with ``count`` > 1 its first axis runs over the
                repetitions.
            mechanism: one that answers values, whose sensitivity is that of one repetition.
            label: what this is, in the ledger.
            count: how many repetitions `value` holds.
            partition: the only part of a split that this release touches.
            claimed: the guarantee claimed for all repetitions together.
            sample: the name of a draw, for mechanisms on a sample: see `release_sum`.

        Returns:
            The noisy value, same shape.

        Raises:
            InvalidParameter: the value is not a finite array of numbers such as the mechanism takes, or
                `count` does not fit it, or the mechanism answers no values, or the value is too large for
                exact noise: about 2^30 times the noise's scale.
            BudgetExceeded: the budget does not suffice; nothing was sampled or written.
        """
        where = f"release {label!r}"
        if not isinstance(mechanism, ValueMechanism):
            what = f"a {getattr(mechanism, 'kind', type(mechanism).__name__)} mechanism for a value"
            remedy = f"{_instead(mechanism)}, or use a mechanism that adds noise to values"
            raise InvalidParameter(what, where=where, why="it cannot answer a value by itself", remedy=remedy)
        release = self.line(
            label, cast("AnyMechanism", mechanism), count, partition=partition, claimed=claimed, sample=sample
        )
        exactly: Array | OnGrid
        if isinstance(value, OnGrid):
            exactly, query = value, as_query(value.to_doubles(), label)
        else:
            exactly = query = as_query(value, label)
        require_count(query, count, label)
        mechanism.require_fits(query, where)
        if release.grid is not None:
            require_in_reach(query, release.grid, where)
        if self.ledger.header.trust_model is TrustModel.LOCAL:
            mechanism.require_single(query, count, where)
        return self._answer(release, query, mechanism.answering(), exactly)

    def release_sum(
        self,
        contributions: Any,
        *,
        bound: float,
        mechanism: AnyMechanism,
        label: str,
        nonnegative: bool = False,
        map: Callable[[Any], ArrayLike] | None = None,  # noqa: A002  (what it does)
        shape: tuple[int, ...] | None = None,
        **stated: Unpack[Stated],
    ) -> Array:
        """Clip each unit's contribution, sum them and release the sum.

        The ledger then says that the sensitivity holds because every contribution was ``clipped``. That is
        true of the machine's numbers. Each entry is rounded towards zero to a grid given by the bound
        and the noise alone. Each row's norm is at most the bound, compared as integers, and rounding towards
        zero never lengthens a row. The integers are added exactly, so that a row contributes itself, whatever
        the order and the number of the others, and two neighbouring sums differ by one such row, or two.

        >>> from dpaudit import L2, Gaussian, NoNoise, run
        >>> def total(rows, curator):
        ...     noise = Gaussian(sigma=2.0, sensitivity=L2(2.0))
        ...     return curator.release_sum(rows, bound=1.0, mechanism=noise, label="total")
        >>> run(total, [[3.0, 4.0], [0.0, 0.5]], noise=NoNoise()).output.round(6).tolist()
        [0.6, 1.3]

        Args:
            contributions: [n, ...], one row per unit of privacy.
            bound: the norm to which a row is scaled down, in the mechanism's norm.
            mechanism: its sensitivity must be at least what `bound` implies under the ledger's relation;
                one on a sample draws it itself, and one whose samples have a bounded size is held to the
                sensitivity of replacing a unit; for integer noise rows are rounded towards 0. With
                `SampledRecords` the rows are a unit's records, along a second axis: [n, m, ...].
            nonnegative: clip entries at 0 from below too; two non-negative contributions have a
                non-negative inner product, so that the replace-one L2 sensitivity is sqrt(2) times the
                bound, not twice.
            map: makes a row of one record; `contributions` are then the records. It is called for every
                record by itself, twice, in two random orders. A record for which it raises, or returns
                anything but the same finite numbers of `shape` both times, contributes zero, and the others
                contribute what they do without it; a warning tells the data's holder how many there are.
                The ledger says that the rows are ``mapped`` if `map` provably depends on its argument alone
                (`dpaudit.curator.purity`), and ``clipped`` otherwise. Records of a ``mapped`` sum must be
                plain values: numbers, text, dates, lists, tuples, dictionaries and arrays; of a named tuple
                its fields are copied. Other records contribute zero.
            shape: of a row that `map` makes, () by default. The records themselves do not decide it.
            label: as in `release`.
            **stated: as said of `Curator`. ``sample`` is the name of a draw: the first release of that name
                draws the sample, and later ones are made on it. They cost together what one release of all
                their sums would. All are given the same records, in the same order, and each makes its own
                rows of them by `map`. Left out, the release draws a sample of its own.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive, the mechanism has another number of units, a sample
                of that name was drawn otherwise or from other records, the contributions are no numbers or a
                masked array, or `shape` is given without `map`.
            ScheduleBroken: a sample was named so long ago that who is in it is no longer known; or, while an
                auditor compares runs, `map` made two rows of one record.
        """
        where = f"release {label!r}"
        alone = map is not None and knows_its_argument_alone(map)
        basis: Basis = "mapped" if alone else "clipped"
        bound = number(bound, f"{where}, bound=")
        integers = getattr(getattr(mechanism, "mechanism", mechanism), "integer_noise", False)
        bound = holding_whole(bound) if integers else bound
        clipped, norm = self._bounded(mechanism, bound, acute=nonnegative, label=label, basis=basis)
        exponent = grid_of_bound(bound, _grid(mechanism), where)
        records = contributions
        if map is not None:
            size, audited = None if shape is None else lengths(shape, where), self.sampler is None
            records = listed(contributions, where)
            contributions = mapped(records, map, size, where, alone=alone, audited=audited)
        elif shape is not None:
            why, remedy = "rows that are given have their own shape", "leave shape= out, or give map="
            raise InvalidParameter("shape= without map=", where=where, why=why, remedy=remedy)
        try:
            given = doubles(contributions, where)
        except InvalidParameter as error:
            if map is None and error.remedy in {error.default_remedy, OF_EACH}:
                error.remedy = "make a row of numbers of each record by map=function"
            raise
        self.require_one_unit(len(np.atleast_1d(given)), where)
        if isinstance(clipped, SampledSum):
            given = clipped.rows(given, where)
        rows = clip_rows(
            given, bound, norm, max(exponent, 0) if integers else exponent, nonnegative=nonnegative
        )
        summed = total(rows)
        if isinstance(clipped, SampledSum):
            sampled = clipped
            known = self.ledger.header.neighbouring is not Neighbouring.ADD_OR_REMOVE_ONE
            sampled.require_units(len(rows.integers), where, known=known)
            query = as_query(summed.to_doubles(), label)
            release = self.line(label, sampled, **stated)
            if release.sample is not None:
                same = SameRecords.of(records if isinstance(records, list | tuple | np.ndarray) else given)
                self.require_one_draw(release, same, plain_alone=alone)
            return self._answer(
                release,
                query,
                sampled.answering(),
                rows,
                exact=sampled.expected_share * query,
            )
        return self.release(summed, clipped, label=label, **stated)

    def release_gram(
        self,
        vectors: ArrayLike,
        *,
        bound: float,
        mechanism: AnyMechanism,
        label: str,
        **stated: Unpack[Stated],
    ) -> Array:
        """Clip each unit's vector x, and release the sum of the outer products x x'.

        Since <x x', y y'> = <x, y>^2 >= 0, under replace-one the Frobenius
        sensitivity is sqrt(2) times the squared bound.

        Args:
            vectors: [n, d], one row per unit of privacy.
            bound: the L2 norm to which a row is scaled down.
            mechanism: as in `release_sum`, with a sensitivity in a Euclidean norm of the matrix.
            label: as in `release`.

        Returns:
            The noisy matrix, [d, d].

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive, or the norm is not Euclidean.
        """
        bound = number(bound, f"release {label!r}, bound=")
        clipped, norm = self._bounded(mechanism, square_above(bound), acute=True, label=label)
        if norm not in {"frobenius", "l2"}:
            what = f"a sensitivity in norm {norm!r} for a Gram matrix"
            why = "the squared bound is the Euclidean norm of an outer product and no other"
            remedy = "use a symmetric-gaussian mechanism, with its sensitivity in the Frobenius norm"
            raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)
        exponent = grid_of_bound(bound, _grid(mechanism), f"release {label!r}", degree=2)
        given = doubles(vectors, f"release {label!r}")
        if given.ndim != 2:
            what, remedy = f"vectors of shape {given.shape}", "give one vector per unit of privacy: [n, d]"
            raise InvalidParameter(what, where=f"release {label!r}", remedy=remedy)
        self.require_one_unit(len(given), f"release {label!r}")
        rows = clip_rows(given, bound, "l2", exponent)
        return self.release(gram(rows), clipped, label=label, **stated)

    def release_counts(
        self,
        cells: NDArray[np.integer],
        *,
        shape: tuple[int, ...],
        bound: float,
        mechanism: AnyMechanism,
        label: str,
        **stated: Unpack[Stated],
    ) -> Array:
        """The sparse form of `release_sum` for counts: each unit increments a few cells of a table.

        Args:
            cells: [n, m] flat indices into a table of `shape`; row i lists unit i's increments.
            shape: the table's shape.
            bound: the norm of one unit's table to which it is scaled down, in the mechanism's norm; the next
                double for the root of a whole number that was rounded down, as `math.sqrt(3)` is.
            mechanism: as in `release_sum`, but not sampled. With discrete noise, a unit past the bound is
                left out.
            label: as in `release`.

        Returns:
            The noisy table, of `shape`.
        """
        where = f"release {label!r}"
        require_unmasked(cells, where)
        bound, shape = holding_whole(number(bound, f"{where}, bound=")), lengths(shape, where)
        clipped, norm = self._bounded(mechanism, bound, acute=True, label=label)
        self.require_one_unit(len(np.atleast_1d(cells)), f"release {label!r}")
        exponent = min(grid_of_bound(bound, _grid(mechanism), f"release {label!r}"), 0)
        table = count_cells(cells, shape, bound, norm, 0 if mechanism.integer_noise else exponent)
        return self.release(table, clipped, label=label, **stated)

    def select(
        self,
        scores: ArrayLike,
        mechanism: Exponential | ReportNoisyMax,
        *,
        label: str,
        score_sensitivity: float,
        monotone: bool = False,
        **stated: Unpack[Stated],
    ) -> int:
        """Choose one of finitely many candidates, better scores more likely.

        Args:
            scores: [k], private; larger is better. Who the k candidates are is public.
            mechanism: the exponential mechanism, or report noisy max.
            score_sensitivity: the largest change of any one score between neighbours, as declared.
            monotone: whether one unit moves all scores in one direction, as counts under add-or-remove; then
                the same epsilon needs half the noise.
            label: as in `release`.

        Returns:
            The index of the chosen candidate.
        """
        score_sensitivity = number(score_sensitivity, f"release {label!r}, score_sensitivity=")
        given = as_query(scores, label)
        weights = mechanism.log_weights(given, score_sensitivity, monotone=monotone)
        release = self.line(label, mechanism, **stated)
        best = np.array(float(np.argmax(weights)))
        exactly = given, mechanism.factor(score_sensitivity, monotone=monotone)
        chosen = self._answer(release, weights, mechanism.answering(), weights, *exactly, exact=best)
        return int(chosen)

    def select_best(
        self,
        trial: Callable[[Curator, int], tuple[float, ArrayLike]],
        mechanism: PrivateSelection,
        *,
        label: str,
        candidates: int = 1,
        default: ArrayLike = 0.0,
        **stated: Unpack[Stated],
    ) -> Array:
        """Run a secret number of private trials, and release the output of the one with the largest score.

        Args:
            trial: from a curator of its own and a candidate, drawn anew for each trial, to a score and an
                output that are made of that curator's releases alone: those that the mechanism lists.
            mechanism: the releases of one trial, and the law of the number of trials.
            label: as in `release`.
            candidates: how many there are: a trial tries one of 0 .. candidates - 1, all alike.
            default: what comes out where no trial is made, and without noise; every output has its shape.

        Raises:
            ScheduleBroken: a trial made other releases than those listed.
            InvalidParameter: a score or an output that is not finite, or an output of another shape.
        """
        candidates = whole(candidates, f"release {label!r}, candidates=")
        if candidates < 1:
            raise InvalidParameter(f"{candidates} candidates", where=f"release {label!r}", remedy="give some")
        public = as_query(default, label)

        def inside(ledger: Ledger, noise: SharedNoise, take: Callable[[Release], None]) -> Curator:
            return TrialCurator(ledger, noise, take, self.public_seed)

        draws = BestOf(trial, mechanism, candidates, public, self.ledger.header, inside)
        return best_of(self, self.line(label, mechanism, **stated), draws, public)

    def release_keys(
        self, keys: Keys, units: ArrayLike, mechanism: KeySelection, *, label: str, **stated: Unpack[Stated]
    ) -> list[tuple[Any, ...]]:
        """Release those of a table's keys that enough units have; `Table.select_keys` bounds and counts them.

        Args:
            keys: all keys that the data have: tuples of text, whole numbers, or yes and no.
            units: [n], how many units have each; private.
            mechanism: how they are chosen.
            label: as in `release`.

        Returns:
            The keys that are kept, in order of their texts.

        Raises:
            InvalidParameter: keys of other types, or other numbers than one for each.
        """
        counted_of = as_query(units, label)
        require_counted(keys, counted_of)
        # In an order that follows from the keys, and not from the rows.
        order = sorted(range(len(keys)), key=lambda i: tuple(map(str, keys[i])))
        keys, given = [keys[i] for i in order], counted_of[order]
        encoded, exact = encode(keys), encode([key for key, n in zip(keys, given, strict=True) if n])
        release = self.line(label, mechanism, **stated)
        # How many keys there are is private too: the question itself is the same for all data.
        question = np.zeros(())
        return decoded(self._answer(release, question, mechanism.answering(), given, encoded, exact=exact))

    def release_shuffled(
        self, answers: ArrayLike, mechanism: Shuffled, *, label: str, **stated: Unpack[Stated]
    ) -> Array:
        """Randomize every user's answer, and release how often each category was given.

        Args:
            answers: [users], the category 0, 1, ... of each; private.
            mechanism: shuffled randomized response.
            label: as in `release`.

        Returns:
            The counts of the randomized answers, [categories].
        """
        release = self.line(label, mechanism, **stated)
        query = as_query(answers, label)
        local = mechanism.require_fits(query, f"release {label!r}")
        exact = counted(query, local.categories)
        return self._answer(release, query, mechanism.answering(), query, exact=exact)

    def sparse_vector(
        self,
        mechanism: SparseVector | GaussianSparseVector,
        label: str,
        *,
        threshold: float = 0.0,
        **stated: Unpack[Stated],
    ) -> Comparisons:
        """Open comparisons of values with a public threshold, charged as a whole now."""
        return Comparisons(self, self.line(label, mechanism, **stated), mechanism, threshold)

    def stream(
        self,
        mechanism: TreeAggregation | MatrixMechanism,
        label: str,
        shape: tuple[int, ...] = (),
        *,
        bound: float | None = None,
        **stated: Unpack[Stated],
    ) -> Stream:
        """Open a stream of items of one shape, whose prefix sums come out noisy.

        With `bound` each item is given as the contributions that it is the sum of, and each of these is
        clipped to that norm: the sensitivity of an item is then ``clipped``, as in `release_sum`. In how many
        items a unit takes part, and how far apart, remains the caller's to keep.
        """
        given: object = mechanism  # callers without a type checker may pass anything
        if not isinstance(given, StreamMechanism):
            what = f"a {getattr(given, 'kind', type(given).__name__)} mechanism for a stream"
            remedy = "give a TreeAggregation or a MatrixMechanism"
            raise InvalidParameter(what, where=f"release {label!r}", why="it has no steps", remedy=remedy)
        shape = lengths(shape, f"release {label!r}")
        if bound is not None:
            bound = number(bound, f"release {label!r}, bound=")
            clipped, _ = self._bounded(mechanism, bound, acute=False, label=label)
            mechanism = cast("TreeAggregation | MatrixMechanism", clipped)
        return Stream(self, self.line(label, mechanism, **stated), mechanism, shape, bound)

    def sampled_stream(
        self,
        mechanism: SampledMatrix | RandomAllocation,
        label: str,
        *,
        bound: float,
        shape: tuple[int, ...] = (),
        **stated: Unpack[Stated],
    ) -> SampledStream:
        """Open sums of units' rows, clipped to a bound, step by step, each over those whose turn it is.

        Args:
            mechanism: as in `release_sum`; it draws whose turn is when, and who takes part.
            label: as in `release`.
            bound: the norm to which a row is scaled down.
            shape: of a row.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive, or the mechanism draws no turns.
        """
        bound, shape = number(bound, f"release {label!r}, bound="), lengths(shape, f"release {label!r}")
        clipped, _ = self._bounded(mechanism, bound, acute=False, label=label)
        if not isinstance(clipped, InTurns):
            what = f"a {clipped.kind} mechanism for a sampled stream"
            remedy = f"{_instead(clipped)}, or give a SampledMatrix or a RandomAllocation"
            raise InvalidParameter(what, where=f"release {label!r}", why="it draws no turns", remedy=remedy)
        return SampledStream(self, self.line(label, clipped, **stated), clipped, bound, shape)

    def batches(
        self,
        mechanism: AnyMechanism,
        label: str,
        shape: tuple[int, ...],
        *,
        bound: float,
        basis: Basis = "clipped",
        draw_with: Batches | None = None,
        **stated: Unpack[Stated],
    ) -> Batches:
        """Begin sums over one batch after another, each drawn before its rows are computed.

        This is like repeated calls of `release_sum` that need no rows of units outside the sample: for
        training on many records. Each sum is a line of the ledger.

        Args:
            mechanism: as in `release_sum`: noise, or noise on a sample of the units.
            label: as in `release`.
            shape: of a row, and of a sum.
            bound: the norm to which a row is scaled down.
            basis: ``declared`` where the other units may have a part in a unit's row.
            draw_with: other sums to be made on the same draws: a `draw` of any of them counts for all, and
                each has its own `add` and `noisy`. The lines of one draw name the same `sample`.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive, the mechanism adds no noise to a sum of rows, a
                `sample` is named, or the sums of `draw_with` are drawn otherwise, or were drawn already.
        """
        if stated.get("sample") is not None:
            what, why = f"sample {stated['sample']!r} for all batches", "each batch is another draw"
            remedy = "leave it out; open the sums that are made on the same draws by draw_with="
            raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)
        bound, shape = number(bound, f"release {label!r}, bound="), lengths(shape, f"release {label!r}")
        clipped, norm = self._bounded(mechanism, bound, acute=False, label=label, basis=basis)
        if not isinstance(clipped, OnSample | ValueMechanism):
            what = f"a {clipped.kind} mechanism for sums over batches"
            remedy = f"{_instead(clipped)}, or give noise on a sum, or a PoissonSampled around it"
            raise InvalidParameter(what, where=f"release {label!r}", remedy=remedy)
        exponent = grid_of_bound(bound, _grid(mechanism), f"release {label!r}")
        if getattr(getattr(clipped, "mechanism", clipped), "integer_noise", False):
            exponent = max(exponent, 0)
        clipping = Clipping(bound, norm, exponent)
        return Batches(self, self.line(label, clipped, **stated), clipped, shape, clipping, draw_with)

    def function(
        self,
        mechanism: GaussianProcess,
        mean: Callable[[float], ArrayLike],
        label: str,
        shape: tuple[int, ...] = (),
        **stated: Unpack[Stated],
    ) -> NoisyFunction:
        """Open a function on the line, with values of one shape, that is noisy wherever it is called."""
        shape = lengths(shape, f"release {label!r}")
        return NoisyFunction(self, self.line(label, mechanism, **stated), mechanism, mean, shape)

    def release_smooth(
        self,
        value: ArrayLike,
        local_scale: float,
        mechanism: SmoothGaussian,
        *,
        label: str,
        **stated: Unpack[Stated],
    ) -> Array:
        """Release a vector with noise whose scale the data chose; the scale is not written to the ledger.

        Args:
            value: the query's answer, with `dimension` entries.
            local_scale: the noise's standard deviation: alpha times a smooth bound on how far the query
                moves from these data to a neighbour, or the root of a smooth bound on its square. Private.
            mechanism: alpha, beta, dimension and the target.
            label: as in `release`.

        Raises:
            InvalidParameter: the scale is not positive and finite, or the value has other than
                `dimension` entries.
        """
        local_scale = number(local_scale, f"release {label!r}, local_scale=")
        query = as_query(value, label)
        if query.size != mechanism.dimension or not 0.0 < local_scale < np.inf:
            raise InvalidParameter(
                f"a value of {query.size} entries for dimension {mechanism.dimension}, "
                "or a local scale that is not positive and finite",
                where=f"release {label!r}",
            )
        return self._answer(
            self.line(label, mechanism, **stated),
            query,
            mechanism.answering(),
            query,
            local_scale,
            scale=local_scale,
        )

    def release_opaque(
        self,
        value: ArrayLike,
        sampler: Sampler,
        mechanism: OpaqueMechanism,
        *,
        label: str,
        **stated: Unpack[Stated],
    ) -> Array:
        """Release what your own sampler draws for a value, under a guarantee justified in writing.

        Args:
            value: the query's answer.
            sampler: draws the output from the value and the curator's generator, and from nothing else.
            mechanism: the guarantee and why it holds.
            label: as in `release`.

        Raises:
            InvalidParameter: the mechanism is drawn by the curator; or a `sample` is named, which only your
                sampler would know.
        """
        if not getattr(mechanism, "drawn_by_caller", False) or mechanism.released_by is None:
            what = f"a {getattr(mechanism, 'kind', type(mechanism).__name__)} mechanism with your own sampler"
            why = "the certificate would name no justification for what the sampler draws"
            remedy = f"{_instead(mechanism)}, or state a guarantee with its justification, as OpaqueZCDP"
            raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)
        if (sample := stated.get("sample")) is not None:
            what = f"sample {sample!r} for your own sampler"
            why = "the curator does not draw that sample, so it cannot make two releases on it"
            remedy = "release all answers on one draw as one vector; or let release_sum draw the samples"
            raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)
        query = as_query(value, label)
        if self.sampler_watcher is not None:
            self.sampler_watcher(label, query.copy(), sampler)

        def drawn(value: Array, randomness: Randomness) -> Array:
            return np.array(sampler(value.copy(), randomness.generator), dtype=np.float64)

        return self._answer(self.line(label, mechanism, **stated), query, drawn, query)

    @contextmanager
    def samplers_watched(self, watch: SamplerWatcher) -> Iterator[None]:
        """While it lasts, call `watch` before each `release_opaque`, of users' curators too; for auditors."""
        before, self.sampler_watcher = self.sampler_watcher, watch
        try:
            yield
        finally:
            self.sampler_watcher = before

    @complete("curator.table")
    def table(self, frame: Any, *, unit: str, hash_key: str = "") -> Table:
        """A data frame whose sums are released by groups, each unit's part in them bounded.

        Args:
            frame: of pandas, Polars, PyArrow, DuckDB, Dask, PySpark or Ibis, or a function that returns one.
            unit: the column that says whose row it is; the ledger must be about the same unit.
            hash_key: public; another one keeps other rows of the units that have too many.

        Raises:
            InvalidParameter: no data frame, or no such column of text or whole numbers.
            ClaimMismatch: the ledger's unit is another one, or its trust is not central.
        """
        return cast("Table", from_wing("table")(self, frame, unit, hash_key))

    def public(self, name: str) -> np.random.Generator:
        """The public random stream of that name, for exploration, splits, initial weights; never for noise.

        A replay uses the same streams, so both sides of a pair see the same public randomness.
        """
        if name not in self._streams:
            words = hashlib.sha256(name.encode()).digest()
            entropy = [self.public_seed, *np.frombuffer(words, dtype=np.uint32).tolist()]
            self._streams[name] = np.random.default_rng(np.random.SeedSequence(entropy))
        return self._streams[name]

    def user(self, index: int) -> UserCurator:
        """The local curator of one user, which must make the first user's releases.

        Raises:
            ScheduleBroken: as `Users.begin`.
        """
        if type(index) is not int:
            index = whole(index, "curator.user(index=)")
        return UserCurator(self, self._users.begin(index))

    def end(self) -> None:
        """The run is over; raises `ScheduleBroken` where the last user made too few releases."""
        self._users.end()

    def _bounded(
        self, mechanism: AnyMechanism, bound: float, *, acute: bool, label: str, basis: Basis = "clipped"
    ) -> tuple[AnyMechanism, Norm]:
        self.ledger.require_admits(mechanism, f"release {label!r}")
        relation = self.ledger.header.neighbouring
        return bounded(mechanism, bound, relation, acute=acute, label=label, basis=basis)

    def _answer(
        self,
        release: Release,
        query: Array,
        answering: Callable[..., Array],
        *given: Given,
        exact: Array | None = None,
        scale: float | None = None,
    ) -> Array:
        where = released_at(CORE)
        number = self.admit(release, where)
        exact = query if exact is None else exact
        return self.ask(Question(release, number, query, exact, answering, given, scale=scale, where=where))


class TrialCurator(Curator):
    """One trial's curator: every release is taken before it is drawn."""

    def __init__(
        self, ledger: Ledger, noise: NoiseSource, take: Callable[[Release], None], public_seed: int
    ) -> None:
        super().__init__(ledger, noise, public_seed=public_seed)
        self._take = take

    def charge(self, release: Release, where: str | None = None) -> None:
        """As `Admission.charge`, of a release that the mechanism lists; else raises `ScheduleBroken`."""
        self._take(release)
        super().charge(release, where)

    def admit(self, release: Release, where: str | None = None) -> int:
        """Charge and write it: under local trust, a trial is its user's."""
        self.charge(release, where)
        return next(self._numbers)


class UserCurator(Curator):
    """One user's local curator: a context in which exactly the first user's releases are made."""

    def __init__(self, everyone: Curator, schedule: UserSchedule) -> None:
        noise, transcript, numbers = everyone.for_user()
        super().__init__(everyone.ledger, noise, transcript=transcript)
        self._numbers = numbers
        self._everyone = everyone
        self._schedule = schedule
        self._user = schedule.index
        self.sampler_watcher = everyone.sampler_watcher

    def public(self, name: str) -> np.random.Generator:
        """The whole run's public stream of that name."""
        return self._everyone.public(name)

    def user(self, index: int) -> UserCurator:
        """A user has no users; raises `ScheduleBroken`."""
        what = f"user {index} inside user {self._schedule.index}"
        where = f"ledger of {self.ledger.header.algorithm!r}"
        why = "a local curator makes the releases of one user"
        raise ScheduleBroken(what, where=where, why=why, remedy="call user() on the run's curator")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._schedule.require_whole()

    def admit(self, release: Release, where: str | None = None) -> int:
        """Charge and write the first user's release; hold every other user's against it."""
        if self._schedule.take(release):
            self._everyone.charge(release, where)
        return next(self._numbers)


def _instead(mechanism: object) -> str:
    """How a mechanism is released, or what a curator can run in its place."""
    method = getattr(mechanism, "released_by", "release_opaque")
    if method is None:
        why = "by what chance a unit moves a query no value shows"
        return f"account for it in a ledger of what runs elsewhere ({why}), or sample by release_sum"
    return f"release through curator.{method}"


def _grid(mechanism: AnyMechanism) -> int:
    return FINEST if mechanism.grid is None else mechanism.grid
