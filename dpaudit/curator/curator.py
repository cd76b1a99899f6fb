"""The curator: the only object through which private data leave an algorithm.

It draws the noise and writes the ledger in one call, so both always agree. Live, noiseless, recorded and
replayed runs differ in the curator's noise source; the algorithm stays the same.
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
#: Receives the label, the value and the sampler of a release.
SamplerWatcher: TypeAlias = Callable[[str, Array, Sampler], object]


#: For an unknown method name, the method to suggest: names of mechanisms, and names in other libraries.
_MEANT: dict[str, str] = {
    **{kind.replace("-", "_"): model.released_by or "release_sum" for kind, model in OWN_KINDS.items()},
    **dict.fromkeys(("choose", "choice", "noisy_max", "permute_and_flip", "argmax"), "select"),
    **dict.fromkeys(("add_noise", "noise", "sample", "answer", "query"), "release"),
    **dict.fromkeys(("sum", "mean", "average", "clipped_sum"), "release_sum"),
    **dict.fromkeys(("count", "counts", "histogram"), "release_counts"),
    **dict.fromkeys(("prefix_sums", "tree", "continual"), "stream"),
}


class NoSuchMethod(UsageError, AttributeError):
    """The curator has no method of this name."""


class Curator(Admission):
    """Answers an algorithm's queries with noise, and writes each into the ledger.

    `**stated` are the fields of `dpaudit.curator.admission.Stated`: ``partition`` and ``claimed``, as in
    `release`, and ``sample``, for `release_sum` only.

    Args:
        ledger: where every release is written before its output is returned.
        noise: live noise by default, seeded by the operating system.
        budget: a privacy filter; it refuses a release that would exceed the budget, before anything is
            sampled.
        transcript: where queries and outputs are kept for an auditor; private.
        public_seed: seeds the public random streams; need not be secret.
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
        """Raise `NoSuchMethod`, with a suggestion, for an unknown method name."""
        known = [own for own in vars(Curator) if not own.startswith("_")]
        wanted = _MEANT.get(name) or next(iter(difflib.get_close_matches(name, known, n=1)), None)
        hint = f"did you mean `{wanted}`?" if wanted else f"it has {', '.join(known)}"
        why = "an algorithm releases every output through a method of the curator"
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
            mechanism: a mechanism for values, with the sensitivity of one repetition.
            label: the name of the release in the ledger.
            count: the number of repetitions in `value`.
            partition: the part of a split, if the release uses no other part of the data.
            claimed: the guarantee claimed for all repetitions together.
            sample: the name of a draw, for mechanisms on a sample: see `release_sum`.

        Returns:
            The noisy value, same shape.

        Raises:
            InvalidParameter: the value is not a finite array of numbers that the mechanism accepts, `count`
                is not the length of its first axis, the mechanism does not answer values, or the value is too
                large for exact noise (about 2^30 times the noise's scale).
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

        The ledger then says that the sensitivity holds because every contribution was ``clipped``. This holds
        for the computed numbers. Each entry is rounded towards zero to a grid that depends on the bound and
        the noise only. Each row's norm is at most the bound, compared as integers, and rounding towards zero
        never lengthens a row. The integers are added exactly, so a row's contribution does not depend on the
        order and the number of the other rows, and two neighbouring sums differ by one or two rows.

        >>> from dpaudit import L2, Gaussian, NoNoise, run
        >>> def total(rows, curator):
        ...     noise = Gaussian(sigma=2.0, sensitivity=L2(2.0))
        ...     return curator.release_sum(rows, bound=1.0, mechanism=noise, label="total")
        >>> run(total, [[3.0, 4.0], [0.0, 0.5]], noise=NoNoise()).output.round(6).tolist()
        [0.6, 1.3]

        Args:
            contributions: [n, ...], one row per unit of privacy.
            bound: the largest norm of a row, in the mechanism's norm; longer rows are scaled down.
            mechanism: its sensitivity must be at least the one that `bound` implies under the ledger's
                relation. A sampled mechanism draws its own sample; if its sample size is bounded, the
                replace-one sensitivity is required. For integer noise rows are rounded towards 0. With
                `SampledRecords` a unit's records lie along a second axis: [n, m, ...].
            nonnegative: clip negative entries to 0 as well; two non-negative contributions have a
                non-negative inner product, so the replace-one L2 sensitivity is sqrt(2) times the bound, not
                twice the bound.
            map: computes a row from one record; `contributions` are then the records. It is called twice for
                each record, in two random orders. If it raises for a record, or does not return the same
                finite numbers of shape `shape` both times, that record contributes zero, and no other row
                changes; a warning tells the data holder the number of such records. The ledger says that the
                rows are ``mapped`` if `map` provably depends on its argument alone
                (`dpaudit.curator.purity`), and ``clipped`` otherwise. Records of a ``mapped`` sum must be
                plain values: numbers, text, dates, lists, tuples, dictionaries and arrays; a named tuple is
                copied field by field. Other records contribute zero.
            shape: the shape of a row that `map` returns, () by default; it must not depend on the records.
            label: as in `release`.
            **stated: see `Curator`. ``sample`` is the name of a sample: the first release with that name
                draws it, and later releases use it again. Together they cost as much as one release of all
                their sums. All need the same records in the same order; each computes its own rows with
                `map`. Without a name, the release draws its own sample.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below the one that the bound implies.
            InvalidParameter: the bound is not positive, the mechanism states another number of units, the
                named sample had another sampling or other records, the contributions are not numbers or are a
                masked array, or `shape` is given without `map`.
            ScheduleBroken: the named sample is too old and was forgotten; or, in an audited run, `map`
                returned two different rows for one record.
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
            why, remedy = "given rows have their own shape", "leave shape= out, or give map="
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
            bound: the largest L2 norm of a row; longer rows are scaled down.
            mechanism: as in `release_sum`, with a sensitivity in a Euclidean norm of the matrix.
            label: as in `release`.

        Returns:
            The noisy matrix, [d, d].

        Raises:
            SensitivityTooSmall: the declared sensitivity is below the one that the bound implies.
            InvalidParameter: the bound is not positive, or the norm is not Euclidean.
        """
        bound = number(bound, f"release {label!r}, bound=")
        clipped, norm = self._bounded(mechanism, square_above(bound), acute=True, label=label)
        if norm not in {"frobenius", "l2"}:
            what = f"a sensitivity in norm {norm!r} for a Gram matrix"
            why = "the squared bound limits only the Euclidean norm of an outer product"
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
        """Release a table of counts; this is the sparse form of `release_sum`.

        Each unit increments a few cells of the table.

        Args:
            cells: [n, m] flat indices into a table of `shape`; row i lists unit i's increments.
            shape: the table's shape.
            bound: the largest norm of one unit's own table, in the mechanism's norm; larger ones are scaled
                down. If `bound` is a rounded-down root of a whole number, such as `math.sqrt(3)`, the next
                larger double is used.
            mechanism: as in `release_sum`, but not sampled. With discrete noise, a unit above the bound is
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
            scores: [k], private; larger is better. The set of the k candidates is public.
            mechanism: the exponential mechanism, or report noisy max.
            score_sensitivity: the largest change of any one score between neighbours, as declared.
            monotone: whether one unit moves all scores in one direction, for example counts under
                add-or-remove-one; the same epsilon then needs half the noise.
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
            trial: receives its own curator and a randomly drawn candidate; returns a score and an output,
                both computed only from the releases of that curator. It makes exactly the releases that the
                mechanism lists.
            mechanism: the releases of one trial, and the distribution of the number of trials.
            label: as in `release`.
            candidates: the number of candidates; a trial draws one of 0 .. candidates - 1 uniformly.
            default: the output if no trial is made, and in a noiseless run; every output has its shape.

        Raises:
            ScheduleBroken: a trial made other releases than those listed.
            InvalidParameter: a score or an output is not finite, or an output has another shape.
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
        """Release the keys of a table that enough units have.

        `Table.select_keys` bounds each unit's number of keys and counts the units.

        Args:
            keys: all keys in the data: tuples of text, whole numbers or booleans.
            units: [n], the number of units with each key; private.
            mechanism: the mechanism that selects the keys.
            label: as in `release`.

        Returns:
            The selected keys, ordered by their texts.

        Raises:
            InvalidParameter: the keys have other types, or `units` does not hold one number for each key.
        """
        counted_of = as_query(units, label)
        require_counted(keys, counted_of)
        # The order must depend on the keys only, not on the rows.
        order = sorted(range(len(keys)), key=lambda i: tuple(map(str, keys[i])))
        keys, given = [keys[i] for i in order], counted_of[order]
        encoded, exact = encode(keys), encode([key for key, n in zip(keys, given, strict=True) if n])
        release = self.line(label, mechanism, **stated)
        # The number of keys is private too, so the question is the same for all data.
        question = np.zeros(())
        return decoded(self._answer(release, question, mechanism.answering(), given, encoded, exact=exact))

    def release_shuffled(
        self, answers: ArrayLike, mechanism: Shuffled, *, label: str, **stated: Unpack[Stated]
    ) -> Array:
        """Randomize every user's answer, and release the count of each category.

        Args:
            answers: [users], each user's category 0, 1, ...; private.
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
        """Open comparisons of values with a public threshold; charge the whole budget for them now."""
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
        """Open a stream that releases the noisy prefix sums of items of one shape.

        With `bound`, each item is given as the units' contributions [n, *shape]; each contribution is clipped
        to that norm, and the item is their sum. The sensitivity of an item is then ``clipped``, as in
        `release_sum`. The caller must ensure that a unit takes part in at most as many items, and as far
        apart, as the mechanism states.
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
        """Open a stream of sums: each step adds the clipped rows of the units scheduled for it.

        Args:
            mechanism: as in `release_sum`; it draws the participation schedule and the sample.
            label: as in `release`.
            bound: the largest norm of a row; longer rows are scaled down.
            shape: the shape of a row.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below the one that the bound implies.
            InvalidParameter: the bound is not positive, or the mechanism draws no participation schedule.
        """
        bound, shape = number(bound, f"release {label!r}, bound="), lengths(shape, f"release {label!r}")
        clipped, _ = self._bounded(mechanism, bound, acute=False, label=label)
        if not isinstance(clipped, InTurns):
            what = f"a {clipped.kind} mechanism for a sampled stream"
            remedy = f"{_instead(clipped)}, or give a SampledMatrix or a RandomAllocation"
            raise InvalidParameter(
                what, where=f"release {label!r}", why="it draws no participation schedule", remedy=remedy
            )
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
        """Open sums over successive batches; each batch is drawn before its rows are computed.

        Each batch is like a call of `release_sum`, but needs only the rows of the units in the sample. This
        suits training on many records. Each sum is a line of the ledger.

        Args:
            mechanism: as in `release_sum`: noise, or noise on a sample of the units.
            label: as in `release`.
            shape: the shape of a row, and of a sum.
            bound: the largest norm of a row; longer rows are scaled down.
            basis: ``declared`` if a unit's row may depend on other units.
            draw_with: other sums that share the draws: a `draw` of any of them counts for all, and each has
                its own `add` and `noisy`. The ledger lines of one draw name the same `sample`.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below the one that the bound implies.
            InvalidParameter: the bound is not positive, the mechanism does not add noise to a sum of rows, a
                `sample` is named, or the sums of `draw_with` use another sampling or have drawn a batch.
        """
        if stated.get("sample") is not None:
            what, why = f"sample {stated['sample']!r} for all batches", "each batch is another draw"
            remedy = "leave it out; use draw_with= for sums on the same draws"
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
        """Open a noisy version of a function of one real number with values of one shape."""
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
        """Release a vector with a noise scale that depends on the data; the scale is not in the ledger.

        Args:
            value: the query's answer, with `dimension` entries.
            local_scale: the noise's standard deviation: alpha times a smooth bound on the distance between
                the query's answers on these data and on a neighbour, or the root of a smooth bound on its
                square. Private.
            mechanism: alpha, beta, dimension and the target.
            label: as in `release`.

        Raises:
            InvalidParameter: the scale is not positive and finite, or the value does not have `dimension`
                entries.
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
        """Release the output of your own sampler, under a guarantee that you justify in writing.

        Args:
            value: the query's answer.
            sampler: draws the output; it may use only the value and the curator's generator.
            mechanism: the guarantee and its justification.
            label: as in `release`.

        Raises:
            InvalidParameter: the curator draws this mechanism itself, or a `sample` is named.
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
        """Inside the block, call `watch` before each `release_opaque`, also for users; for auditors."""
        before, self.sampler_watcher = self.sampler_watcher, watch
        try:
            yield
        finally:
            self.sampler_watcher = before

    @complete("curator.table")
    def table(self, frame: Any, *, unit: str, hash_key: str = "") -> Table:
        """Return a table that releases grouped sums of a data frame with bounded contributions per unit.

        Args:
            frame: a frame of pandas, Polars, PyArrow, DuckDB, Dask, PySpark or Ibis, or a function that
                returns one.
            unit: the column with the identifier of each row's unit; the ledger must be about the same unit.
            hash_key: public; selects the rows that are kept for units with too many rows.

        Raises:
            InvalidParameter: `frame` is not a data frame, or `unit` is not a column of text or whole numbers.
            ClaimMismatch: the ledger has another unit, or its trust model is not central.
        """
        return cast("Table", from_wing("table")(self, frame, unit, hash_key))

    def public(self, name: str) -> np.random.Generator:
        """Return the named public random stream, for exploration, splits or initial weights, never for noise.

        A replay uses the same streams, so both data sets of a pair see the same public randomness.
        """
        if name not in self._streams:
            words = hashlib.sha256(name.encode()).digest()
            entropy = [self.public_seed, *np.frombuffer(words, dtype=np.uint32).tolist()]
            self._streams[name] = np.random.default_rng(np.random.SeedSequence(entropy))
        return self._streams[name]

    def user(self, index: int) -> UserCurator:
        """Return the local curator of one user; every user must make the first user's releases.

        Raises:
            ScheduleBroken: as for `Users.begin`.
        """
        if type(index) is not int:
            index = whole(index, "curator.user(index=)")
        return UserCurator(self, self._users.begin(index))

    def end(self) -> None:
        """End the run; raises `ScheduleBroken` if the last user made too few releases."""
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
    """The curator of one trial: it checks every release against the mechanism's list before drawing."""

    def __init__(
        self, ledger: Ledger, noise: NoiseSource, take: Callable[[Release], None], public_seed: int
    ) -> None:
        super().__init__(ledger, noise, public_seed=public_seed)
        self._take = take

    def charge(self, release: Release, where: str | None = None) -> None:
        """Charge a release that the mechanism lists; raises `ScheduleBroken` for any other."""
        self._take(release)
        super().charge(release, where)

    def admit(self, release: Release, where: str | None = None) -> int:
        """Charge and write a release; under local trust too, because a trial belongs to one user."""
        self.charge(release, where)
        return next(self._numbers)


class UserCurator(Curator):
    """One user's local curator: a context manager that admits exactly the first user's releases."""

    def __init__(self, everyone: Curator, schedule: UserSchedule) -> None:
        noise, transcript, numbers = everyone.for_user()
        super().__init__(everyone.ledger, noise, transcript=transcript)
        self._numbers = numbers
        self._everyone = everyone
        self._schedule = schedule
        self._user = schedule.index
        self.sampler_watcher = everyone.sampler_watcher

    def public(self, name: str) -> np.random.Generator:
        """Return the run's public stream of that name."""
        return self._everyone.public(name)

    def user(self, index: int) -> UserCurator:
        """Raise `ScheduleBroken`: a user has no users."""
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
        """Charge and write the first user's release; compare every other user's release with it."""
        if self._schedule.take(release):
            self._everyone.charge(release, where)
        return next(self._numbers)


def _instead(mechanism: object) -> str:
    """Return the remedy for a mechanism in the wrong method: the right method or a replacement."""
    method = getattr(mechanism, "released_by", "release_opaque")
    if method is None:
        why = "a value does not reveal the sampling probability"
        return f"account for it in a ledger of a run elsewhere ({why}), or sample with release_sum"
    return f"release through curator.{method}"


def _grid(mechanism: AnyMechanism) -> int:
    return FINEST if mechanism.grid is None else mechanism.grid
