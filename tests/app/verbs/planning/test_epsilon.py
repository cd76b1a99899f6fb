import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REVIEWED = ["gaussian", "--sigma", 1.1, "--rate", 0.01, "--steps", 10_000, "--delta", 1e-5]

PLAN = """
[[release]]
mechanism = "gaussian"
sigma = 3
steps = 4

[[release]]
label = "counts"
mechanism = "laplace"
scale = 10.0
sensitivity = { value = 2, norm = "l1", basis = "clipped" }
"""


@pytest.fixture
def plan(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "plan.toml"
        path.write_text(text)
        return path

    return write


def bound(found: Any, figure: str, **fields: Any) -> float:
    rows = [row for row in found if figure in row and fields.items() <= row.items()]
    (value,) = [row[figure] for row in rows if ("delta" in row) == ("delta" in fields)]
    assert isinstance(value, float)
    return value


def test_a_reviewers_question(answer: Any) -> None:
    status, found = answer("epsilon", *REVIEWED)
    assert status == 0
    assert bound(found["bounds"], "epsilon", delta=1e-5) == pytest.approx(5.192583445, abs=1e-8)
    assert found["releases"][0]["count"] == 10_000
    assert found["releases"][0]["mechanism"]["mechanism"]["sigma"] == 1.1
    assert [one["code"] for one in found["not_checked"]] == [
        "declared-sensitivity",
        "hidden-sample",
        "sample-summed",
        "fresh-samples",
    ]


def test_a_claim_is_judged_at_its_edge(dpaudit: Any, answer: Any) -> None:
    assert dpaudit("epsilon", *REVIEWED, "--claim", 3).exit_code == 1
    assert dpaudit("epsilon", *REVIEWED, "--claim", 5.1926).exit_code == 0
    assert dpaudit("epsilon", *REVIEWED, "--claim", 5.1925).exit_code == 1
    status, found = answer("epsilon", *REVIEWED, "--delta", 1e-9, "--claim", 6)
    assert status == 1
    assert [one["verdict"] for one in found["claims"]] == ["PROVED", "NOT_PROVED"]
    assert [one["delta"] for one in found["claims"]] == [1e-5, 1e-9]


def test_a_sample_in_which_units_are_replaced(answer: Any) -> None:
    """dp-accounting has 3.2142; without the bound on a unit's own part nothing is hidden."""
    sums = ["gaussian", "--sigma", 1, "--rate", 0.01, "--sensitivity", 2, "--delta", 1e-6]
    sums += ["--neighbouring", "replace-one"]
    _, hidden = answer("epsilon", *sums, "--count", 1000, "--contribution", 1)
    assert 3.21 < hidden["bounds"][0]["epsilon"] <= 3.2143
    _, known = answer("epsilon", *sums, "--count", 1)
    _, whole = answer("epsilon", "gaussian", "--sigma", 1, "--sensitivity", 2, "--delta", 1e-6)
    assert known["bounds"][0]["epsilon"] == pytest.approx(whole["bounds"][0]["epsilon"], rel=1e-12)


OF_FIXED_SIZE = ["gaussian", "--sigma", 1.1, "--size", 256, "--units", 60000, "--steps", 4688]


def test_a_sample_of_fixed_size_asks_for_the_sensitivity_of_a_replaced_unit(
    answer: Any, refusal: Any, plan: Callable[[str], Path]
) -> None:
    """For rows clipped to the norm 1 it is 2; what another in a unit's place costs is not 1.31885."""
    assert "add --sensitivity 2 for rows clipped to the norm 1" in refusal("epsilon", *OF_FIXED_SIZE)
    _, found = answer("epsilon", *OF_FIXED_SIZE, "--sensitivity", 2, "--delta", 1e-5)
    assert 8.784 <= found["bounds"][0]["epsilon"] <= 8.785
    planned = refusal(
        "epsilon", plan('[[release]]\nmechanism = "gaussian"\nsigma = 1\nsize = 2\nunits = 9\n')
    )
    assert "release 1: sensitivity: gaussian on a fixed-size sample" in planned
    assert "add sensitivity = 2" in planned


def test_a_plan_under_replace_one_states_its_sensitivities(refusal: Any, plan: Callable[[str], Path]) -> None:
    one = '[[release]]\nmechanism = "laplace"\nscale = 2\n'
    for path, options in (
        (plan(one), ["--neighbouring", "replace-one"]),
        (plan(f'neighbouring = "replace-one"\n{one}'), []),
    ):
        assert "add sensitivity = 2" in refusal("epsilon", path, *options)


@pytest.mark.parametrize(
    ("sampled", "at_least"),
    [
        (["--sigma", 0.4, "--rate", 0.3, "--most", 1, "--units", 1], 33.106),
        (["--sigma", 1, "--rate", 0.3, "--most", 3, "--units", 4], 9.283),
        (["--sigma", 2, "--rate", 0.1, "--most", 30, "--units", 50], 2.1817),
    ],
)
def test_a_cut_sample_of_rows_between_1_and_2(answer: Any, sampled: list[object], at_least: float) -> None:
    """They change by 1, and 2 are taken out: neither bounds the other."""
    stated = ["--sensitivity", 1, "--contribution", 2, "--delta", 1e-6]
    _, found = answer("epsilon", "gaussian", *sampled, *stated)
    assert at_least * (1 - 2e-5) <= found["bounds"][0]["epsilon"] <= at_least * (1 + 2e-3)


def test_a_claim_without_a_delta_is_of_pure_dp(dpaudit: Any) -> None:
    answers = ["epsilon", "randomized-response", "--epsilon", 0.25, "--count", 20, "--claim"]
    assert dpaudit(*answers, 5).exit_code == 0
    assert dpaudit(*answers, 4.99).exit_code == 1
    gaussian = dpaudit("epsilon", "gaussian", "--sigma", 1, "--claim", 1000)
    assert gaussian.exit_code == 1
    assert "no bound on pure epsilon-DP is known: add --delta" in gaussian.stdout


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("epsilon", "gaussian", "--sigma", -1), "--sigma"),
        (("epsilon", "gaussian", "--sigma", 1, "--sensitivity", -1), "--sensitivity"),
        (("epsilon", "gaussian", "--sigma", 1, "--rate", 2), "--rate"),
        (("epsilon", "gaussian", "--sigma", 1, "--delta", 2), "--delta"),
        (("epsilon", "gaussian", "--sigma", 1, "--claim", -2), "--claim"),
        (("convert", "--rho", -1), "--rho"),
        (("convert", "--epsilon", 1, "--delta", 2), "--delta"),
        (("convert", "--epsilon", 1, "--order", 0.5), "--order"),
        (("convert", "--epsilon", 1, "--alpha", 0.5), "--alpha"),
        (("calibrate", "gaussian", "--mu", -1), "--mu"),
        (("calibrate", "gaussian", "--rho", 1, "--sensitivity", -1), "--sensitivity"),
        (("certify", "dp-apvi", "--epsilon", -1), "--epsilon"),
        (("certify", "dp-apvi", "--budget-rho", -1), "--budget-rho"),
        (("certify", "dp-apvi", "-P", "rho=-1"), "-P rho"),
        (("book", "show", "--delta", 2), "--delta"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(map(str, given)),
)
def test_a_figure_out_of_range_is_named_by_its_option(
    dpaudit: Any, command: tuple[object, ...], option: str
) -> None:
    refused = dpaudit(*command)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: DPA101 {option}: ")


def test_text_has_every_scale_and_what_is_not_checked(dpaudit: Any) -> None:
    result = dpaudit("epsilon", "tree-aggregation", "--sigma", 2, "--steps", 1000, "--count", 2)
    rows = dict(re.findall(r"^(\S.*?)  +([0-9.]+|none known)(?:  |$)", result.stdout, flags=re.MULTILINE))
    # 2 trees of 10 levels: mu^2 = 20/4.
    assert float(rows["mu of GDP"]) == pytest.approx(math.sqrt(5.0), rel=1e-14)
    assert float(rows["rho of zCDP"]) == 2.5
    assert rows["pure epsilon"] == "none known"
    assert {f"epsilon at delta {delta}" for delta in ("1e-05", "1e-06", "1e-09")} <= set(rows)
    assert "leaves a zero at its place in the stream" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "figure", "expected"),
    [
        (["randomized-response", "--epsilon", 1], "rho", math.tanh(0.5)),
        (["exponential", "--epsilon", 1], "rho", 1 / 8),
        (["symmetric-gaussian", "--sigma", 2, "--sensitivity", 3], "mu", 1.5),
        (["gaussian-process", "--sigma", 4], "mu", 0.25),
        (["discrete-gaussian", "--sigma", 2], "rho", 1 / 8),
        (["zcdp", "--rho", 0.01, "--count", 50], "rho", 0.5),
        (["laplace", "--scale", 2, "--sensitivity", 3], "epsilon", 1.5),
        (["discrete-laplace", "--scale", 2], "epsilon", 0.5),
        (["pure-dp", "--epsilon", 0.1, "--steps", 10], "epsilon", 1.0),
        (["report-noisy-max", "--epsilon", 1, "--noise-law", "laplace"], "epsilon", 1.0),
        (["sparse-vector", "--epsilon", 1, "--answers", 2, "--count", 3], "epsilon", 3.0),
        # A subset of 3 of 10: log(1 + 0.3 (e - 1)).
        (
            ["randomized-response", "--epsilon", 1, "--size", 3, "--units", 10],
            "epsilon",
            math.log1p(0.3 * math.expm1(1.0)),
        ),
    ],
)
def test_every_mechanism(answer: Any, arguments: list[object], figure: str, expected: float) -> None:
    status, found = answer("epsilon", *arguments)
    assert status == 0
    assert bound(found["bounds"], figure) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("flag", "moved"), [((), 6.0), (("--monotone",), 2.0)])
def test_a_flag_is_part_of_what_is_asked(answer: Any, flag: tuple[str, ...], moved: float) -> None:
    steps, sigma, delta = 10_000, 8.0, 1e-6
    asked = ["gaussian-sparse-vector", "--sigma", sigma, "--steps", steps, *flag]
    _, found = answer("epsilon", *asked, "--delta", delta)
    # Zhu and Wang 2020: alpha moved/(2 sigma^2) + log(N)/(alpha - 1) of one yes among N outcomes, and what
    # Canonne, Kamath and Steinke 2020, Proposition 12, make of it. The orders here are closer together.
    orders = [1.0 + 1.05**power for power in range(-50, 150)]
    expected = min(
        alpha * moved / (2.0 * sigma**2)
        + (math.log(steps + 1) - math.log(delta * alpha)) / (alpha - 1.0)
        + math.log1p(-1.0 / alpha)
        for alpha in orders
    )
    assert expected <= bound(found["bounds"], "epsilon", delta=delta) <= 1.04 * expected


def test_what_fails_with_a_small_probability_has_its_own_delta(
    answer: Any, dpaudit: Any, refusal: Any
) -> None:
    given = ["epsilon", "approx-dp", "--epsilon", 0.5, "--own-delta", 1e-6]
    status, found = answer(*given, "--delta", 1e-6)
    assert status == 0
    assert bound(found["bounds"], "epsilon", delta=1e-6) == pytest.approx(0.5, rel=1e-9)
    assert "DPA402" in refusal(*given, "--delta", 1e-7)
    # Where no delta was asked for, a figure that is not known is said to be so.
    assert "none known" in dpaudit(*given).stdout


def test_a_plan_has_a_row_for_each_release(answer: Any, dpaudit: Any, plan: Callable[[str], Path]) -> None:
    path = plan(PLAN)
    status, found = answer("epsilon", path, "--delta", 1e-6, "--claim", 3.5)
    assert status == 0
    alone = [bound(row["bounds"], "epsilon", delta=1e-6) for row in found["releases"]]
    together = bound(found["bounds"], "epsilon", delta=1e-6)
    assert max(alone) < together < sum(alone)
    _, gaussian = answer("epsilon", "gaussian", "--sigma", 3, "--count", 4, "--delta", 1e-6)
    assert alone[0] == bound(gaussian["bounds"], "epsilon", delta=1e-6)
    assert [row["label"] for row in found["releases"]] == ["gaussian 1", "counts"]
    text = dpaudit("epsilon", path, "--delta", 1e-6).stdout
    assert "gaussian 1 x4" in " ".join(text.split())
    assert "2 l1 clipped" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_parts_of_one_split_do_not_add_up(answer: Any, plan: Callable[[str], Path]) -> None:
    one = '[[release]]\nmechanism = "laplace"\nscale = 2\n'
    asked = "--delta", 1e-5
    _, apart = answer("epsilon", plan(one + 'partition = "a"\n' + one + 'partition = "b"\n'), *asked)
    assert bound(apart["bounds"], "epsilon") == 0.5
    _, both = answer("epsilon", plan(one + one), *asked)
    assert bound(both["bounds"], "epsilon") == 1.0


def test_the_relation_may_stand_in_either(answer: Any, dpaudit: Any, plan: Callable[[str], Path]) -> None:
    sampled = '[[release]]\nmechanism = "gaussian"\nsigma = 1\nrate = 0.1\nsensitivity = 2\n'
    asked = ["--delta", 1e-5, "--neighbouring", "replace-one"]
    path = plan(sampled)
    status, by_option = answer("epsilon", path, *asked)
    assert (status, by_option["neighbouring"]) == (0, "replace-one")
    plan(f'neighbouring = "replace-one"\n{sampled}')
    assert answer("epsilon", path, "--delta", 1e-5)[1] == by_option
    assert answer("epsilon", path, *asked)[1] == by_option
    assert dpaudit("epsilon", path, "--neighbouring", "zero-out").exit_code == 2


def test_the_curve_is_printed_and_drawn(answer: Any, dpaudit: Any, tmp_path: Path, nightly: bool) -> None:
    status, found = answer("epsilon", "gaussian", "--sigma", 1, "--curve")
    assert status == 0
    (gdp,) = [one for one in found["curves"] if one["method"] == "gdp"]
    # Balle and Wang 2018, Theorem 8, at epsilon 0: 2 Phi(1/2) - 1.
    assert gdp["points"][0] == [0.0, pytest.approx(math.erf(0.5 / math.sqrt(2.0)), rel=1e-12)]
    told = ("laplace", "--scale", 1) if nightly else ("randomized-response", "--epsilon", 1)
    assert "delta at most" in dpaudit("epsilon", *told, "--curve").stdout
    pictures = [tmp_path / f"curve.{ending}" for ending in ("svg", "png", "html")]
    plotted = [word for picture in pictures for word in ("--plot", picture)]
    asked = REVIEWED if nightly else ("gaussian", "--sigma", 1, "--delta", 1e-5)
    result = dpaudit("epsilon", *asked, "--claim", 6, *plotted)
    assert result.exit_code == 0, result.stderr
    starts = [picture.read_bytes().lstrip()[:4] for picture in pictures]
    assert starts == [b"<svg", b"\x89PNG", b"<!DO"]
    assert all(word in pictures[0].read_text() for word in ("pld", "rdp", "claim"))
    assert [picture for picture in pictures if f"drawn: {picture}" not in result.stderr] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gausian", "--sigma", 1], "did you mean 'gaussian'?"),
        (["poisson-sampled"], "such as its rate"),
        (["tabulated"], "tabulated needs losses and probabilities why: an option is one number or word"),
        (["missing.toml"], "No such file"),
        (["gaussian"], "add --sigma"),
        (["gaussian", "--sigma", 1, "--scale", 1], "--scale with gaussian"),
        (["gaussian", "--sigma", 0], "0.0 is not above 0"),
        (["gaussian", "--sigma", "nan"], "finite"),
        (["gaussian", "--sigma", "wide"], "not a valid float"),
        (["gaussian", "--sigma", 1, "--count", 0], "0 is not in the range"),
        (["gaussian", "--sigma", 1, "--steps", 0], "0 is below 1"),
        (["gaussian", "--sigma", 1, "--steps", 2, "--count", 2], "--count and --steps at once"),
        (["gaussian", "--sigma", 1, "--rate", 2], "2.0 is above 1"),
        (["gaussian", "--sigma", 1, "--contribution", 1], "give --rate; or --size and --units"),
        (["gaussian", "--sigma", 1, "--delta", 0], "0.0 is not above 0"),
        (["gaussian", "--sigma", 1, "--delta", 1e-5, "--claim", -1], "-1.0 is below 0"),
        (["gaussian", "--sigma", 1, "--delta", 1e-5, "--claim", "nan"], "finite"),
        (["gaussian", "--sigma", 1, "--neighbouring", "all"], "not one of"),
        (["gaussian", "--sigma", 1, "--plot", "curve.gif"], "use one of .svg"),
        (["gaussian", "--sigma", 1, "--plot", "curve.svg", "--plot", "no/such/curve.svg"], "not a folder"),
        (["gaussian", "--sigma", 1, "--sigm", 1], "--sigma"),
    ],
)
def test_what_cannot_be_asked(dpaudit: Any, tmp_path: Path, arguments: list[object], said: str) -> None:
    result = dpaudit("epsilon", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "fault in dpaudit" not in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.glob("curve.*")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it plans no releases"),
        ("release = 3", "it plans no releases"),
        ("release = [1]", "it plans no releases"),
        ("[release]\nmechanism = 'gaussian'", "it plans no releases"),
        ("[[release]]\nsigma = 1", "release 1: mechanism: it names no mechanism"),
        ("[[release]]\nmechanism = 'gausian'", "did you mean 'gaussian'?"),
        ("[[release]]\nmechanism = 'gaussian'\nsigm = 1", "did you mean 'sigma'?"),
        (f"{PLAN}\n[[release]]\nmechanism = 'laplace'", "release 3: scale: laplace needs scale"),
        ("[[release]]\nmechanism = 'gaussian'\nsigma = -1", "release 1: sigma"),
        ("[[release]]\nmechanism = 'gaussian'\nsigma = '1'", "release 1: sigma"),
        ("[[release]]\nmechanism = 'gaussian'\nsigma = 1\ncount = 1.5", "release 1: Release.count"),
        ("[[release]]\nmechanism = 'gaussian'\nsigma = 1\nlabel = ''", "release 1: Release.label"),
        ("releases = []", "did you mean 'release'?"),
        ("neighbouring = 'add-or-remove'\n" + PLAN, "did you mean 'add-or-remove-one'?"),
        ("neighbouring = 3\n" + PLAN, "no relation 3"),
        ("[[release]", "cannot be read"),
    ],
)
def test_what_is_no_plan(dpaudit: Any, plan: Callable[[str], Path], text: str, said: str) -> None:
    path = plan(text)
    result = dpaudit("epsilon", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert str(path) in result.stderr
    assert "fault in dpaudit" not in result.stderr


def test_a_plan_says_itself_what_its_releases_are(refusal: Any, plan: Callable[[str], Path]) -> None:
    assert "--sigma with a plan" in refusal("epsilon", plan(PLAN), "--sigma", 1)
