"""What mechanisms ask for, exactly: sums without rounding, trees of noisy nodes, outputs on their grid."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import (
    L2,
    RKHS,
    Curator,
    ExponentialKernel,
    Frobenius,
    GaussianProcess,
    Ledger,
    PoissonSampled,
    SymmetricGaussian,
    TreeAggregation,
    run,
)
from dpaudit.curator.noise import LiveNoise, ReplayedNoise, Transcript
from dpaudit.errors import DpauditError, InvalidParameter, LedgerTampered
from dpaudit.mechanisms import Tree
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.grid import OnGrid, grid
from dpaudit.noise.randomness import ExactRandomness, SeededRandomness, exact_sum
from tests import make

GAUSSIAN = make.gaussian(3.0)
LAPLACE = make.laplace(0.3)
DOUBLES = st.floats(-1e300, 1e300)


def exact(seed: int = 1) -> ExactRandomness:
    return ExactRandomness(SeededBits(np.random.default_rng(seed)))


def fractions(value: Any) -> list[Fraction]:
    if isinstance(value, OnGrid):
        return [int(m) * Fraction(2) ** value.exponent for m in value.integers.ravel()]
    return [Fraction(entry) for entry in value.ravel().tolist()]


@given(st.lists(st.lists(DOUBLES, min_size=2, max_size=2), min_size=1, max_size=5), st.integers(-40, 40))
def test_a_total_is_exact(rows: list[list[float]], exponent: int) -> None:
    parts: list[Any] = [np.array(row) for row in rows]
    parts.append(OnGrid(np.array([3, -(2**70)], dtype=object), exponent))
    expected = [sum(column) for column in zip(*map(fractions, parts), strict=True)]
    assert fractions(exact_sum(parts)) == expected


def test_a_trees_prefix_sums_are_sums_of_its_noisy_nodes() -> None:
    """Each node's release is noise on the exact sum of its items, and nothing else reaches the output."""
    items = np.array([0.1, 1e9, -1e9, 0.2, 1e-9, 0.3, 7.0])
    mechanism = TreeAggregation(sigma=1e-3 * 2.0**12, steps=7, sensitivity=L2(1.0))
    seen: list[tuple[Any, Any]] = []

    class Spy(ExactRandomness):
        def gaussian(self, value: Any, sigma: float) -> Any:
            noisy = super().gaussian(value, sigma)
            seen.append((value, noisy))
            return noisy

    tree, spy = Tree(mechanism, ()), Spy(SeededBits(np.random.default_rng(1)))
    outputs = []
    for item in items:
        tree.push(np.array(item))
        outputs.append(float(tree.noisy(spy)))
    spans = [(0, 1), (0, 2), (2, 3), (0, 4), (4, 5), (4, 6), (6, 7)]
    for (first, end), (total, _) in zip(spans, seen, strict=True):
        assert fractions(total) == [sum(map(Fraction, items[first:end].tolist()))]
    noisy = [float(out) for _, out in seen]
    made_of = [[0], [1], [1, 2], [3], [3, 4], [3, 5], [3, 5, 6]]
    for output, nodes in zip(outputs, made_of, strict=True):
        assert output == pytest.approx(sum(noisy[node] for node in nodes), abs=1e-6)


def released(mechanism: Any) -> Callable[[Any, Curator], Any]:
    def algorithm(data: Any, curator: Curator) -> Any:
        match mechanism:
            case TreeAggregation():
                stream = curator.stream(mechanism, "x", (2,))
                return [stream.add([0.1, 0.7]) for _ in range(3)]
            case GaussianProcess():
                return curator.function(mechanism, lambda x: 0.3 * x, "x")([0.0, 1.0, 0.3])
            case PoissonSampled():
                rows = np.full((9, 2), 0.3)
                return curator.release_sum(rows, bound=1.0, mechanism=mechanism, label="x")
            case SymmetricGaussian():
                return curator.release(np.eye(2) / 3.0, mechanism, label="x")
        return curator.release(np.arange(4.0), mechanism, label="x")

    return algorithm


MECHANISMS = [
    GAUSSIAN,
    LAPLACE,
    make.discrete_gaussian(3.0),
    make.discrete_laplace(3.0),
    SymmetricGaussian(sigma=0.7, dimension=2, sensitivity=Frobenius(1.0)),
    TreeAggregation(sigma=5.0, steps=3, sensitivity=L2(1.0)),
    GaussianProcess(sigma=5.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0)),
    PoissonSampled(rate=0.5, mechanism=make.gaussian(4.0, 2.0)),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.kind)
def test_a_live_run_is_on_the_grid_that_its_ledger_names_and_a_seeded_one_is_not(
    mechanism: Any, tmp_path: Path
) -> None:
    made = run(released(mechanism), None, path=tmp_path / "l.jsonl")
    header, (release,) = made.ledger.header, made.ledger.releases
    assert (header.noise.sampler, release.grid) == ("dpaudit-exact", mechanism.grid)
    steps = np.asarray(made.output) * 2.0**-mechanism.grid
    assert np.array_equal(steps, np.rint(steps))
    assert Ledger.read(tmp_path / "l.jsonl").releases == (release,)
    seeded = run(released(mechanism), None, seed=1).ledger
    assert (seeded.header.noise.sampler, seeded.releases[0].grid) == ("numpy-float64", None)


def test_a_recording_of_a_live_run_is_replayed() -> None:
    """The recorded releases have grids, those of a replay none: its noise is not drawn."""
    transcript = Transcript()
    first = run(released(GAUSSIAN), None, noise=LiveNoise(), transcript=transcript)
    again = run(released(GAUSSIAN), None, noise=ReplayedNoise(transcript))
    assert np.array_equal(first.output, again.output)
    assert again.ledger.releases[0].grid is None


def test_a_grid_is_covered_by_the_hash_and_has_to_follow_from_the_mechanism(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    run(released(GAUSSIAN), None, path=path)
    whole = path.read_bytes()
    assert b'"grid":-31' in whole
    for edit in (b'"grid":-30', b'"grid":-310'):
        path.write_bytes(whole.replace(b'"grid":-31', edit))
        with pytest.raises(LedgerTampered):
            Ledger.read(path)
    with pytest.raises(InvalidParameter, match=r"grid 2\^-30 for noise whose grid is 2\^-31"):
        make.release(GAUSSIAN, grid=-30)
    wrong: Any
    for wrong in (True, -31.0, "-31"):
        with pytest.raises(DpauditError):
            make.release(GAUSSIAN, grid=wrong)


@pytest.mark.parametrize(("value", "sigma"), [(1e10, 1.0), (0.0, 1e-300)])
def test_what_no_grid_holds_is_refused_by_name(value: float, sigma: float) -> None:
    noise = make.gaussian(sigma)
    with pytest.raises(InvalidParameter) as caught:
        run(lambda data, curator: curator.release(value, noise, label="big"), None)
    if sigma == 1.0:
        assert caught.value.where == "release 'big'"
    assert caught.value.remedy


def test_a_generator_for_the_authors_own_sampler_is_new_every_time() -> None:
    randomness = exact()
    assert len({randomness.generator.random() for _ in range(3)}) == 3
    seeded = SeededRandomness(3)
    assert seeded.generator is seeded.generator


def test_the_grid_of_a_scale_is_named_by_the_mechanism() -> None:
    assert [m.grid for m in MECHANISMS[:3]] == [grid(3.0), grid(0.3), 0]
