"""`dpaudit audit` by sampling: every method and score on a fault and its innocent twin.

All seeds are fixed. Where an innocent one is not refuted, over seeds it would be with probability 1e-6 at
most: --confidence 0.999999.
"""

import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpaudit.algorithms.catalogue import CATALOGUE
from tests.app.verbs.auditing.test_audit import KEYS
from tests.sweeps import sweep

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"

MODULE = """
import os
from dataclasses import dataclass
import numpy as np
from dpaudit import L1, L2, Claim, Gaussian, Laplace, Pair, PureDP, UserViews
from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.auditors.sampling.curatorless import Plain

def closure(scale):
    def count(data, curator):
        print("chatter")
        return curator.release(data.sum(), Laplace(scale=scale, sensitivity=L1(1.0)), label="count")
    return count

single = closure(1.0)

@dataclass(frozen=True)
class Sum:
    mechanism: object
    def __call__(self, data, curator):
        return curator.release(data.sum(), self.mechanism, label="sum")
    def batch(self, data, curator, trials):
        print("chatter")
        return curator.release(np.full(trials, data.sum()), self.mechanism, label="sum", count=trials)

honest, halved = (Sum(Laplace(scale=scale, sensitivity=L1(1.0))) for scale in (1.0, 0.3))
gaussian = Sum(Gaussian(sigma=1.0, sensitivity=L2(1.0)))

def plain(data, generator):
    return data.sum() + generator.laplace(scale=0.3)
wrapped = Plain(plain, claim=Claim(PureDP(epsilon=1.0)))
lam = Plain(lambda data, generator: data.sum() + generator.laplace())

def spread(data, generator):
    return generator.normal() * (1.0 + 3.0 * data.sum())

def shifted(data, generator):
    return generator.normal(size=3) + [0.0, 3.0 * data.sum(), 0.0]

def fails(data, generator):
    value = generator.normal()
    if data.sum() and value > 1.0:
        raise ValueError("a private record")
    return value

def always(data, generator):
    raise ValueError("a private record")

def once(data, curator):
    if data.sum() and not os.path.exists("@FLAG@"):
        open("@FLAG@", "w").close()
        raise KeyboardInterrupt
    return curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")

def absolute(output):
    return abs(float(output))

def own(data, curator):
    noisy = curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")
    return UserViews(tuple((noisy, float(row)) for row in data))

def others(data, curator):
    noisy = curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")
    return UserViews(tuple((noisy, float(row)) for row in data[::-1]))

def local(scale):
    def randomizer(data, curator):
        noise = Laplace(scale=scale, sensitivity=L1(1.0))
        return [curator.user(i).release(row, noise, label="row") for i, row in enumerate(data)]
    return randomizer
local_honest, local_halved = local(1.0), local(0.2)

def branching(data, curator):
    first = curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="first")
    if data.sum():
        curator.release(0.0, Laplace(scale=1.0, sensitivity=L1(1.0)), label="second")
    return first

def pair():
    return np.array([0.0, 0.0]), np.array([0.0, 1.0])
PAIR = Pair(*pair())
def unit_pair():
    return Pair(*pair(), unit=1)

def total(data, generator):
    return data + generator.laplace(scale=2.0, size=data.shape)
def bare(data, generator):
    return data + generator.laplace(scale=0.1, size=data.shape)
def claiming(data, curator):
    return curator.release(data, Laplace(scale=2.0, sensitivity=L1(1.0)), label="all")
claiming.claim = Claim(PureDP(epsilon=1.0), neighbouring="replace-one")
def needs_add_or_remove(data, curator):
    assert curator.ledger.header.neighbouring == "add-or-remove-one"
    return curator.release(data, Laplace(scale=2.0, sensitivity=L1(1.0)), label="all")
def silent(data, curator):
    return 0.0
def canaries(number):
    return Canaries(number, lambda coins: coins.astype(float), lambda output: output)
def scored(number, score):
    assert score == "gradient"
    return canaries(number)
def too_few(number):
    return Canaries(number - 1, lambda coins: coins.astype(float), lambda output: output)
"""

Own = Callable[[str], str]
Answer = Callable[..., tuple[int, Any]]
SURE = ("--confidence", 0.999999)


@pytest.fixture
def own(module: Any, tmp_path: Path) -> Own:
    made: Own = module(MODULE.replace("@FLAG@", str(tmp_path / "flag")))
    return made


@pytest.fixture
def audited(answer: Answer, own: Own) -> Answer:
    """Audit one of the module's mechanisms on its pair, for JSON."""

    def invoke(name: str, *options: object, pair: str = "pair") -> tuple[int, Any]:
        return answer("audit", own(name), "--pair", own(pair), *options)

    return invoke


CLAIMS = [("--epsilon", 1), ("--epsilon", 0.99, "--delta", 1e-3), ("--rho", 0.5)]


@sweep("method, claim", product(["threshold", "sequential"], CLAIMS), everyday=(0, 2, 3))
def test_a_fault_is_refuted_and_its_twin_is_not(
    audited: Answer, nightly: bool, method: str, claim: Any
) -> None:
    trials = 2000 if nightly else 500
    options = ("--method", method, "--trials", trials, *claim, *SURE)
    status, found = audited("halved", *options)
    assert (status, found["verdict"], found["method"]) == (1, "REFUTED", method)
    assert set(found) >= KEYS
    assert (found["trials"], found["confidence"], found["findings"]) == (trials, 0.999999, [])
    assert found["about"] == "final-output"
    # Between nothing and the truth, 1 / 0.3; and no more than this method can tell with so many runs.
    assert 1.0 < found["epsilon_lower"] <= found["largest_refutable_epsilon"]
    assert found["epsilon_lower"] < 1 / 0.3
    status, found = audited("honest", *options)
    assert (status, found["verdict"]) == (0, "NOT_REFUTED")
    assert found["epsilon_lower"] <= 1.0


@pytest.mark.parametrize(("mu", "verdict"), [(0.5, "REFUTED"), (1.0, "NOT_REFUTED")])
@sweep("method", ["threshold", "sequential", "gdp"], everyday=(0, 2))
def test_a_claim_of_gaussian_privacy(
    audited: Answer, dpaudit: Any, own: Own, method: str, mu: float, verdict: str
) -> None:
    options = ("--method", method, "--mu", mu, "--trials", 4000, *SURE)
    assert audited("gaussian", *options)[1]["verdict"] == verdict
    text = dpaudit("audit", own("gaussian"), "--pair", own("pair"), *options).stdout
    assert ("the audit refutes 0.5-GDP in the final output" in text) is (verdict == "REFUTED")
    assert ("; this says nothing about epsilon" in text) is (method == "gdp" and verdict == "REFUTED")


def test_a_bound_on_mu_refutes_nothing_but_mu(audited: Answer) -> None:
    status, found = audited("honest", "--method", "gdp", "--mu", 3, *SURE)
    assert (status, found["epsilon_lower"], found["largest_refutable_epsilon"]) == (0, None, None)
    assert 0.0 < found["mu_lower"] < 1.24


def test_gdp_of_another_claim_is_refused(refusal: Any, own: Own) -> None:
    result = refusal("audit", own("honest"), "--pair", own("pair"), "--method", "gdp", "--epsilon", 1)
    assert "a bound on mu cannot refute" in result
    assert "runs a side" not in result  # before any run is made


def test_delta_without_epsilon_says_where_the_bound_is_stated(audited: Answer) -> None:
    options = ("--method", "threshold", "--trials", 1000, "--rho", 0.5)
    assert audited("gaussian", *options, "--delta", 1e-3)[1]["delta"] == 1e-3
    assert audited("gaussian", *options)[1]["delta"] == 1e-5


@pytest.mark.parametrize(("name", "verdict"), [("halved", "REFUTED"), ("honest", "NOT_REFUTED")])
def test_the_exact_ratio_about_the_transcript(audited: Answer, name: str, verdict: str) -> None:
    _, found = audited(
        name, "--method", "threshold", "--score", "exact", "--epsilon", 1, "--trials", 200, *SURE
    )
    assert (found["verdict"], found["about"]) == (verdict, "transcript")


def test_releases_that_one_side_never_makes_are_an_infinite_ratio(audited: Answer) -> None:
    options = ("--method", "threshold", "--epsilon", 2, "--trials", 220, *SURE)
    assert audited("branching", *options, "--score", "exact")[1]["verdict"] == "REFUTED"
    assert audited("branching", *options)[1]["verdict"] != "REFUTED"  # the output alone does not show it


@pytest.mark.nightly
def test_boosting_finds_what_no_line_separates(audited: Answer) -> None:
    options = ("--plain", "--epsilon", 0.5, "--method", "sequential", "--trials", 1200, *SURE)
    assert audited("spread", *options, "--score", "boosting")[1]["verdict"] == "REFUTED"


def test_a_score_of_ones_own(audited: Answer, own: Own) -> None:
    options = ("--plain", "--epsilon", 0.5, "--method", "threshold", "--trials", 1000, *SURE)
    assert audited("spread", *options, "--score", own("absolute"))[1]["verdict"] == "REFUTED"


def test_a_vector_is_learned_from(audited: Answer) -> None:
    status, found = audited("shifted", "--plain", "--epsilon", 1, "--trials", 300, *SURE)
    assert (status, found["verdict"], found["method"]) == (1, "REFUTED", "sequential")


@pytest.mark.parametrize(
    ("name", "options"), [("plain", ("--plain", "--epsilon", 1)), ("wrapped", ()), ("lam", ("--epsilon", 1))]
)
def test_what_draws_its_own_noise_is_sampled(audited: Answer, name: str, options: Any) -> None:
    workers = 2 if name == "wrapped" else 1
    status, found = audited(name, *options, "--trials", 300, "--workers", workers, *SURE, pair="PAIR")
    assert (status, found["verdict"]) == ((0, "NOT_REFUTED") if name == "lam" else (1, "REFUTED"))
    assert found["method"] == "sequential"


def test_what_draws_its_own_noise_cannot_be_replayed(refusal: Any, own: Own) -> None:
    assert "draws its own noise" in refusal(
        "audit", own("wrapped"), "--pair", own("pair"), "--method", "replay"
    )


def test_a_batch_form_is_used(audited: Answer) -> None:
    status, found = audited("honest", "--method", "threshold", "--epsilon", 1, "--trials", 200_000, *SURE)
    assert (status, found["verdict"], found["trials"]) == (0, "NOT_REFUTED", 200_000)
    assert 0.5 < found["epsilon_lower"] <= 1.0


def test_workers_and_chatter_change_nothing(dpaudit: Any, own: Own) -> None:
    command = ["audit", own("single"), "--pair", own("pair"), "--method", "threshold", "--trials", 200]
    command += ["--epsilon", 1, "--chunk", 50, "--output-format", "json"]
    one, two = dpaudit(*command), dpaudit(*command, "--workers", 2)
    assert one.stdout == two.stdout
    assert json.loads(one.stdout)["trials"] == 200


@pytest.mark.parametrize("name", ["own", "others"])
def test_under_joint_trust_ones_own_view_is_not_compared(audited: Answer, name: str) -> None:
    options = ("--method", "threshold", "--epsilon", 1, "--trust-model", "joint", "--trials", 120, *SURE)
    _, found = audited(name, *options, pair="unit_pair")
    # Each user sees their own row; in the faulty one, somebody else's.
    assert found["verdict"] == ("REFUTED" if name == "others" else "NOT_REFUTED")
    central = (*options[:4], *options[6:])
    assert audited(name, *central, pair="unit_pair")[1]["verdict"] == "REFUTED"


def test_under_joint_trust_the_changed_user_must_be_known(dpaudit: Any, own: Own) -> None:
    options = ("--method", "threshold", "--epsilon", 1, "--trust-model", "joint")
    result = dpaudit("audit", own("own"), "--pair", own("pair"), *options)
    assert (result.exit_code, "does not name the changed user" in result.stderr) == (2, True)
    result = dpaudit("audit", own("honest"), "--pair", own("unit_pair"), *options)
    assert (result.exit_code, "return UserViews" in result.stderr) == (2, True)


@pytest.mark.parametrize(("name", "verdict"), [("local_halved", "REFUTED"), ("local_honest", "NOT_REFUTED")])
def test_local_randomizers(audited: Answer, name: str, verdict: str) -> None:
    options = ("--method", "threshold", "--epsilon", 1, "--trust-model", "local", "--users", 2)
    assert audited(name, *options, "--trials", 120, *SURE)[1]["verdict"] == verdict


def test_a_claim_beyond_reach_is_inconclusive_and_says_what_it_takes(dpaudit: Any, own: Own) -> None:
    for method in ("threshold", "sequential"):
        command = ["audit", own("honest"), "--pair", own("pair"), "--epsilon", 8, "--trials", 100]
        assert dpaudit(*command, "--method", method).exit_code == 0
        result = dpaudit(*command, "--method", method, "--strict")
        assert result.exit_code == 4
        assert "audit INCONCLUSIVE" in result.stdout
        assert "it takes at least" in " ".join(result.stdout.split())
    result = dpaudit(
        "audit", own("gaussian"), "--pair", own("pair"), "--mu", 5, "--method", "gdp", "--trials", 50
    )
    assert "it takes at least" in " ".join(result.stdout.split())


def test_what_it_takes_is_enough(audited: Answer) -> None:
    options = ("--method", "threshold", "--epsilon", 4)
    _, found = audited("honest", *options, "--trials", 100)
    needed = int(found["inconclusive"][0].split(" runs a side in all")[0].split()[-1])
    assert audited("honest", *options, "--trials", needed + 5)[1]["inconclusive"] == []
    assert audited("honest", *options, "--trials", needed - 5)[1]["inconclusive"] != []


def test_a_trial_that_raises_on_one_side_refutes_and_its_words_stay_where_they_are(
    dpaudit: Any, own: Own
) -> None:
    command = ["audit", own("fails"), "--plain", "--pair", own("pair"), "--epsilon", 1, "--seed", 8]
    result = dpaudit(*command, "--trials", 300)
    assert (result.exit_code, "audit REFUTED" in result.stdout) == (1, True)
    assert "private record" not in result.stdout + result.stderr


def test_a_target_that_always_raises_is_named_with_what_repeats_it(refusal: Any, own: Own) -> None:
    command = ["audit", own("always"), "--plain", "--pair", own("pair"), "--epsilon", 1, "--seed", 8]
    result = refusal(*command, "--trials", 100)
    assert "DPA601" in result
    assert "private record" not in result


@sweep("workers", [1, 2], everyday=(0,))
def test_a_run_cut_off_and_resumed_says_bit_for_bit_the_same(
    dpaudit: Any, own: Own, tmp_path: Path, workers: int
) -> None:
    command = ["audit", own("once"), "--pair", own("pair"), "--epsilon", 1, "--trials", 60, "--chunk", 20]
    command += ["--method", "sequential", "--output-format", "json"]
    kept = ["--resume", tmp_path / "audit.sqlite"]
    assert dpaudit(*command, *kept, "--workers", 1).exit_code == 130  # the first trial sets the flag
    resumed = dpaudit(*command, *kept, "--workers", workers)
    assert resumed.exit_code == 0
    assert resumed.stdout == dpaudit(*command).stdout
    # Another claim is another question about the same runs; another seed is not.
    assert dpaudit(*command, *kept, "--delta", 1e-6).exit_code == 0
    refused = dpaudit(*command, *kept, "--seed", 1)
    assert (refused.exit_code, "seed (0 there, 1 here)" in refused.stderr) == (2, True)


def test_time_runs_out(audited: Answer) -> None:
    options = ("--epsilon", 1, "--trials", 1000, "--chunk", 50, "--time-limit", 1e-9)
    for method in ("threshold", "sequential"):
        status, found = audited("lam", "--method", method, *options)
        assert (status, found["trials"], found["verdict"]) == (0, 50, found["verdict"])
        assert found["event"].endswith("ended by the time limit after 50 of 1000 runs a side")
        # A sequential audit may be ended at any moment.
        caveats = [limit for limit in found["not_checked"] if limit.get("ended_by") == "time-limit"]
        assert len(caveats) == (method == "threshold")


def test_a_sequential_audit_may_stop_when_it_knows(audited: Answer) -> None:
    options = ("--method", "sequential", "--trials", 5000, "--stop-when-refuted")
    status, found = audited("wrapped", *options)
    assert (status, found["verdict"]) == (1, "REFUTED")
    assert found["trials"] < 1000


def test_progress_and_a_live_bound_on_stderr(dpaudit: Any, own: Own) -> None:
    command = ["audit", own("wrapped"), "--pair", own("pair"), "--trials", 200, "--chunk", 50]
    said = dpaudit(*command).stderr.splitlines()
    assert said[0].startswith("50 of 200 runs a side")
    assert said[-1].startswith("200 of 200 runs a side")
    assert any("epsilon >= " in line for line in said)
    # A test of a fixed number of runs shows nothing before its end.
    assert "epsilon" not in dpaudit(*command, "--method", "threshold").stderr


def test_one_run_is_about_a_unit_more_or_less_unless_told_otherwise(dpaudit: Any, own: Own) -> None:
    def head(name: str, *options: object) -> tuple[str, str]:
        result = dpaudit("audit", own(name), "--method", "one-run", "--canaries", own("canaries"), *options)
        claim, verdict, *_ = result.stdout.splitlines()
        return claim, verdict

    claim, verdict = head("total", "--plain", "--epsilon", 1)
    assert claim == "total: 1-DP per record (add-or-remove-one, central)"
    assert verdict == "audit NOT_REFUTED by one-run on 1000 canaries, audit seed 0"
    assert "(replace-one, " in head("total", "--plain", "--epsilon", 1, "--neighbouring", "replace-one")[0]
    assert "(replace-one, " in head("claiming")[0]
    # The ledger of the one run is about the same relation.
    assert head("needs_add_or_remove", "--epsilon", 1)[0].endswith("(add-or-remove-one, central)")
    assert head("needs_add_or_remove")[0].endswith("nothing claimed")


def test_a_number_of_canaries_stands_for_those_in_the_targets_file(dpaudit: Any, own: Own) -> None:
    command = ("audit", own("total"), "--plain", "--epsilon", 1, "--method", "one-run")
    by_number = dpaudit(*command, "--canaries", 300)
    assert by_number.stdout == dpaudit(*command, "--canaries", own("canaries"), "--trials", 300).stdout
    assert "on 300 canaries" in by_number.stdout
    named = dpaudit(*command, "--canaries", own("scored"), "--trials", 300, "--score", "gradient")
    assert named.stdout == by_number.stdout
    for wrong, said in (
        (("--canaries", 0), "--canaries 0"),
        (("--canaries", 9, "--trials", 9), "--canaries 9 --trials 9"),
        (("--canaries", 9, "--score", "gradient"), "making the canaries"),
    ):
        refused = dpaudit(*command, *wrong)
        assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert "no file" in dpaudit("audit", "dp-apvi", "--method", "one-run", "--canaries", 9).stderr


def test_one_run(answer: Answer, own: Own) -> None:
    def run(name: str, *options: object) -> tuple[int, Any]:
        command = ["audit", own(name), "--plain", "--method", "one-run", "--canaries", own("canaries")]
        return answer(*command, "--epsilon", 1, *SURE, *options)

    status, found = run("bare", "--trials", 400)
    assert (status, found["verdict"], found["trials"], found["method"]) == (1, "REFUTED", 400, "one-run")
    assert set(found) >= KEYS
    status, found = run("total")
    assert (status, found["verdict"], found["trials"]) == (0, "NOT_REFUTED", 1000)
    status, found = run("total", "--trials", 20)
    assert (status, found["verdict"]) == (0, "INCONCLUSIVE")
    assert "it takes at least" in found["inconclusive"][0]
    # As many guesses as it says are enough, and one fewer is not.
    needed = int(found["inconclusive"][0].split("at least ")[1].split()[0])
    assert run("total", "--trials", 5 * needed, "--guesses", needed)[1]["inconclusive"] == []
    assert run("total", "--trials", 5 * needed, "--guesses", needed - 1)[1]["inconclusive"] != []


def test_an_opendp_measurement_is_a_target(answer: Answer, module: Any) -> None:
    own = module(
        "import opendp.prelude as dp\n"
        "dp.enable_features('contrib')\n"
        "count = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=0.2)\n"
        "def pair(): return 2, 3\n"
    )
    command = ("audit", own("count"), "--pair", own("pair"), *SURE)
    # The truth is 5. The noise is the operating system's: refuting 1 fails less than once in 1e9 runs.
    assert answer(*command, "--epsilon", 1, "--trials", 1000)[1]["verdict"] == "REFUTED"
    assert answer(*command, "--epsilon", 5, "--trials", 300)[1]["verdict"] != "REFUTED"


@pytest.mark.filterwarnings("default")  # other libraries' own
@pytest.mark.parametrize("name", ["audit_opendp", "audit_diffprivlib"])
def test_the_examples_are_targets(answer: Answer, name: str) -> None:
    example = EXAMPLES / f"{name}.py"
    command = ("audit", f"{example}:MECHANISM", "--pair", f"{example}:PAIR", "--trials", 200, *SURE)
    status, found = answer(*command)
    assert (status, found["verdict"]) == (0, "NOT_REFUTED")


@pytest.mark.nightly
def test_built_in_algorithms_bring_their_pairs(answer: Answer) -> None:
    options = ("--method", "threshold", "--trials", 60, *SURE)
    status, found = answer("audit", "dp-apvi", *options)
    assert (status, found["pairs"], found["about"]) == (0, 2, "final-output")
    assert answer("audit", "dp-apvi", *options, "--score", "exact")[1]["about"] == "transcript"


#: Enough for an update; and as few steps of training as make an epoch.
FEW = {"private-lsvi-ucb": ("-P", "ridge=0.03"), "dp-sgd": ("-P", "steps=10"), "dp-ftrl": ("-P", "steps=10")}
SLOW = {"dp-policy-gradient", "ldp-ucrl-vtr", "private-lsvi-ucb"}


@sweep("name", CATALOGUE, everyday=[at for at, name in enumerate(CATALOGUE) if name not in SLOW])
def test_every_built_in_algorithm_can_be_sampled(answer: Answer, name: str) -> None:
    few = FEW.get(name, ())
    status, found = answer("audit", name, *few, "--method", "threshold", "--trials", 10, *SURE)
    assert (status, found["verdict"], found["trials"]) == (0, "INCONCLUSIVE", 10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--method", "replay", "--workers", 2), "--workers with --method replay"),
        (("--method", "replay", "--score", "exact"), "--score with --method replay"),
        (("--method", "threshold", "--canaries", "m:c"), "--canaries with --method threshold"),
        (("--method", "threshold", "--stop-when-refuted"), "--stop-when-refuted with"),
        (("--method", "thresold"), "Did you mean threshold?"),
        (("--library", "diffprivlb"), "Did you mean diffprivlib?"),
        (("--method", "threshold", "--score", "guess"), "no score 'guess'"),
        (("--method", "threshold", "--score", "json:decoder"), "not callable"),
        (("--method", "threshold", "--trials", 5), "10 trials or more"),
        (("--method", "threshold", "--workers", 2, "--dask", "tcp://x:1"), "--dask and --workers"),
        (("--method", "one-run"), "--pair with --method one-run"),
        (("--method", "threshold", "--confidence", 1.5), "--confidence"),
        (("--method", "threshold", "--trials", 0), "--trials"),
        (("--method", "threshold", "--time-limit", 0), "--time-limit"),
        (("--method", "threshold", "--resume", "nowhere/a.sqlite"), "no folder"),
    ],
)
def test_what_cannot_be_followed_is_refused(refusal: Any, own: Own, options: Any, said: str) -> None:
    assert said in refusal("audit", own("honest"), "--pair", own("pair"), "--epsilon", 1, *options)


def test_an_exact_ratio_of_nothing_is_refused(dpaudit: Any, refusal: Any, own: Own) -> None:
    command = ("audit", own("silent"), "--pair", own("pair"), "--epsilon", 1, "--method", "threshold")
    assert "nothing was released through the curator" in refusal(*command, "--score", "exact")
    # A score of the output needs no release.
    assert dpaudit(*command, "--trials", 200).exit_code == 0


def test_wrong_canaries_and_wrong_targets_are_refused(dpaudit: Any, own: Own) -> None:
    command = ("audit", own("total"), "--plain", "--method", "one-run", "--canaries", own("too_few"))
    assert "returned 999 canaries, asked for 1000" in dpaudit(*command).stderr
    without = dpaudit("audit", own("total"), "--plain", "--method", "one-run", "--epsilon", 1)
    assert "no canaries" in without.stderr
    assert "--plain for dp-apvi" in dpaudit("audit", "dp-apvi", "--plain").stderr
    assert "nothing to audit" in dpaudit("audit").stderr
    assert dpaudit("audit", "dp-apvi", "--zoo").exit_code == 2


def test_the_zoo_gets_its_settings(dpaudit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    table = SimpleNamespace(show_zoo=lambda **settings: asked.append(settings) or 1)
    monkeypatch.setitem(sys.modules, "dpaudit.app.text.zoo_table", table)
    assert dpaudit("audit", "--zoo", "--trials", 77, "--seed", 3).exit_code == 1
    assert asked == [{"trials": 77, "seed": 3, "confidence": 0.95, "output_format": "text"}]


@pytest.mark.parametrize(
    "option",
    ["--epsilon 1", "--method replay", "--pair a.py:b", "--strict", "--plain", "--resume x.sqlite", "-P a=1"],
)
def test_the_zoo_refuses_what_it_would_pass_over(refusal: Any, option: str) -> None:
    name, *value = option.split()
    assert f"{name} with --zoo" in refusal("audit", "--zoo", name, *value)


def test_one_run_refuses_a_pair_and_what_draws_its_own_noise_an_exact_ratio(
    refusal: Any, module: Any
) -> None:
    noisy = "def noisy(data, generator):\n    return data + generator.laplace()\n"
    own = module(noisy + "def pair():\n    return 0.0, 1.0\n")
    pair = "--pair", own("pair")
    told = refusal("audit", own("noisy"), "--plain", "--method", "one-run", *pair)
    assert "--pair with --method one-run" in told
    told = refusal("audit", own("noisy"), "--plain", "--score", "exact", *pair)
    assert "--score exact for a target that draws its own noise" in told
