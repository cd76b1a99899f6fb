"""`dpaudit gate --base`: a change is judged by the rules of its merge base, and may only tighten them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("undrawn")

POLICY = """
[tool.dpaudit.policy]
max-epsilon = 3.0
delta-at-most = 1e-6
allowed-samplers = ["numpy-float64"]
{more}
[tool.dpaudit.audit]
trials = 3
"""


@pytest.fixture
def against(gate: Any, git: Any, mine: Any, configure: Any, findings: Any) -> Callable[..., Any]:
    """Commit one configuration, write another, and call the gate against it: exit code, rules, report."""

    def invoke(base: str, working: str, *options: str) -> Any:
        git("init", "--quiet", "--initial-branch", "main")
        configure(base, quick=False)
        git("add", "--all")
        git("commit", "--quiet", "--message", "base")
        git("checkout", "--quiet", "-b", "change")
        status, report = gate(working, "--base", "main", *options, quick=False)
        return status, sorted(rule for rule, _, _ in findings(report)), report

    return invoke


@pytest.fixture
def compared(compare: Any) -> Callable[[str, str], list[str]]:
    """The rules of what one configuration loosens of another."""
    return lambda base, working: [found.rule for found in compare(base, working).findings]


@pytest.fixture
def held(compare: Any) -> Callable[[str, str], Any]:
    """The gate that counts."""
    return lambda base, working: compare(base, working).gate


@pytest.fixture
def compare(git: Any, configure: Any, mine: Any, tmp_path: Path) -> Callable[[str, str], Any]:
    """One configuration held to another, which is committed; nothing is run."""
    from dpaudit.app.gate.base import held_to_base
    from dpaudit.app.gate.configuration import read_configuration
    from dpaudit.app.gate.report import Place

    def compare(base: str, working: str) -> Any:
        git("init", "--quiet", "--initial-branch", "main")
        configure(base, quick=False)
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", "base")
        read = read_configuration(configure(working, quick=False))
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)

        def at(*key: str | int) -> Place:
            return Place.of(read.path, read.line(*key), tmp_path)

        return held_to_base(read, "main", profile="pr", scratch=scratch, at=at)

    return compare


@pytest.fixture
def configuration(target: Any) -> Callable[..., str]:
    """A policy and one target that meets it."""

    def write(*, policy: str = POLICY, more: str = "", claim: str = "{ rho = 0.125 }", tail: str = "") -> str:
        return policy.replace("{more}", more) + target("sums", claim) + tail

    return write


WAIVER = """
[[tool.dpaudit.waivers]]
check = "sums"
finding = "max-epsilon"
reason = "agreed"
expires = {day}
"""


def test_a_change_of_nothing_passes(against: Any, configuration: Any) -> None:
    assert against(configuration(), configuration())[:2] == (0, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max-epsilon = 3.0", "max-epsilon = 4.0"),
        ("delta-at-most = 1e-6", "delta-at-most = 1e-5"),
        ('allowed-samplers = ["numpy-float64"]', ""),
        ('allowed-samplers = ["numpy-float64"]', 'allowed-samplers = ["numpy-float64", "opendp-discrete"]'),
        ("trials = 3", "trials = 2"),
        ("trials = 3", ""),
        ("trials = 3", "trials = 3\nseed = 7"),
        ("trials = 3", "trials = 3\ntime-limit = 60"),
        ("trials = 3", "trials = 3\nconfidence = 0.9999999"),
        ('method = "replay"', 'method = "threshold"'),
        ("{ rho = 0.125 }", "{ rho = 0.126 }"),
        ("{ rho = 0.125 }", "{ mu = 0.5 }"),
        ("claim = { rho = 0.125 }", ""),
        ('pair = "mine.py:pair"', ""),
        ("max-epsilon = 3.0", 'max-epsilon = 3.0\nallowed-changes = ["waiver-added"]'),
        # What the other profile's next run would be judged by.
        ('\nmethod = "replay"\n', '\nmethod = "replay"\n[tool.dpaudit.profile.nightly]\ntrials = 1\n'),
        ('\nmethod = "replay"\n', '\nmethod = "replay"\n[tool.dpaudit.profile.nightly]\nseed = 1\n'),
        (
            '\nmethod = "replay"\n',
            '\nmethod = "replay"\n[tool.dpaudit.profile.nightly]\nconfidence = 0.9999999\n',
        ),
    ],
)
def test_what_is_loosened_is_found(compared: Any, configuration: Any, old: str, new: str) -> None:
    base = configuration(tail='\n[tool.dpaudit.profile.pr]\nmethod = "replay"\n')
    assert old in base
    assert compared(base, base.replace(old, new)) == ["policy-loosened"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max-epsilon = 3.0", "max-epsilon = 2.9"),
        ("delta-at-most = 1e-6", "delta-at-most = 9e-7"),
        ("trials = 3", "trials = 4"),
        ("trials = 3", 'trials = 3\nseed = "fresh"'),
        ("trials = 3", "trials = 3\nconfidence = 0.9999"),
        ("trials = 3", "trials = 3\n[tool.dpaudit.profile.nightly]\ntrials = 2000"),
        ("{ rho = 0.13 }", "{ rho = 0.126 }"),
        ("[tool.dpaudit.audit]", "fail-on-increase = false\n[tool.dpaudit.audit]"),
    ],
)
def test_what_is_tightened_is_no_finding(compared: Any, configuration: Any, old: str, new: str) -> None:
    base = configuration(claim="{ rho = 0.13 }")
    assert old in base
    assert compared(base, base.replace(old, new)) == []


def test_replays_that_are_held_to_as_many_as_may_decide_are_the_most_of_them(
    held: Callable[[str, str], Any], configuration: Any
) -> None:
    """Whichever table states fewer; what states nothing stays as it was, and so does a stated hundred."""
    open_ended = configuration().replace("trials = 3", "")
    assert held(open_ended, open_ended).targets["sums"].audit.trials is None
    for stated, trials in ((50, 100), (100, 100), (101, 101)):
        fewer = configuration().replace("trials = 3", f"trials = {stated}")
        assert held(open_ended, fewer).targets["sums"].audit.trials == trials


def test_the_base_s_policy_judges_the_change(against: Any, configuration: Any) -> None:
    strict = configuration().replace("max-epsilon = 3.0", "max-epsilon = 1.0")
    loose = configuration()
    status, rules, _ = against(strict, loose)
    assert (status, rules) == (1, ["max-epsilon", "policy-loosened"])


def test_a_removed_target_is_found(against: Any, configuration: Any, target: Any) -> None:
    both = configuration() + target("overclaimed", "{ rho = 0.125 }")
    status, rules, report = against(both, configuration())
    assert (status, rules) == (1, ["target-removed"])
    assert "overclaimed" in report["findings"][0]["message"]


def test_an_added_target_is_judged_like_the_others(against: Any, configuration: Any, target: Any) -> None:
    status, rules, _ = against(configuration(), configuration() + target("unclipped", "{ rho = 0.125 }"))
    assert (status, set(rules)) == (1, {"refuted"})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "2099-01-01", (1, ["max-epsilon", "waiver-added"])),
        ("2098-12-31", "2099-01-01", (1, ["max-epsilon", "waiver-added"])),
        ("2099-01-01", "2099-01-01", (0, ["max-epsilon"])),
        ("2099-01-01", "2098-12-31", (0, ["max-epsilon"])),
        ("2099-01-01", "", (1, ["max-epsilon"])),
    ],
)
def test_a_waiver_counts_where_the_base_has_it(
    against: Any, configuration: Any, before: str, after: str, expected: tuple[int, list[str]]
) -> None:
    texts = [
        configuration(tail=WAIVER.format(day=day) if day else "").replace("3.0", "1.0")
        for day in (before, after)
    ]
    assert against(*texts)[:2] == expected


@pytest.mark.parametrize("allowed", ["waiver-added", "waiver-added:sums"])
def test_a_change_that_the_base_allows_takes_effect_and_stays_visible(
    against: Any, configuration: Any, allowed: str
) -> None:
    base = configuration(more=f'allowed-changes = ["{allowed}"]').replace("3.0", "1.0")
    status, rules, report = against(base, base + WAIVER.format(day="2099-01-01"))
    assert (status, rules) == (0, ["allowed-change", "max-epsilon"])
    assert [finding["level"] for finding in report["findings"]] == ["note"]


def test_an_exception_for_another_check_does_not_help(against: Any, configuration: Any) -> None:
    base = configuration(more='allowed-changes = ["waiver-added:others"]').replace("3.0", "1.0")
    assert against(base, base + WAIVER.format(day="2099-01-01"))[0] == 1


def test_an_edited_baseline_is_not_believed(
    against: Any, configuration: Any, gate: Any, dpaudit: Any, tmp_path: Path, findings: Any, mine: Any
) -> None:
    """A change raises the cost, and certifies its baseline anew in the same breath."""
    source = tmp_path / "mine.py"
    sums = source.read_text().partition("def sums")[2].partition("def ")[0].replace("4.0", "3.5")
    source.write_text(f"{source.read_text()}\ndef costlier{sums}")

    def certify(name: str) -> None:
        options = ["--pair", "mine.py:pair", "--rho", "0.5", "-o", "kept"]
        assert dpaudit("certify", f"mine.py:{name}", *options).exit_code == 0

    certify("sums")
    more = '\nbaseline = "kept/certificate.json"'
    base = configuration(more="fail-on-increase = true", claim="{ rho = 0.5 }" + more)
    assert against(base, base)[:2] == (0, [])
    certify("costlier")
    after = base.replace("mine.py:sums", "mine.py:costlier")
    assert gate(after, quick=False)[0] == 0
    status, report = gate(after, "--base", "main", quick=False)
    rules = sorted(rule for rule, _, _ in findings(report))
    assert (status, rules) == (1, ["fail-on-increase", "policy-loosened"])
    messages = [finding["message"] for check in report["checks"] for finding in check["findings"]]
    assert any("the baseline kept/certificate.json of the merge base costs" in words for words in messages)


@pytest.mark.parametrize("reference", ["nowhere", "--help", "", "HEAD:mine.py"])
def test_what_is_no_commit_is_an_error_and_no_success(
    against: Any, configuration: Any, gate: Any, reference: str
) -> None:
    against(configuration(), configuration())
    status, report = gate(configuration(), f"--base={reference}", quick=False)
    assert (status, report["findings"][0]["rule"]) == (2, "input")


def test_without_a_repository_nothing_is_held(gate: Any, configuration: Any) -> None:
    status, report = gate(configuration(), "--base", "main", quick=False)
    assert (status, report["findings"][0]["rule"]) == (2, "input")


def test_histories_without_a_common_commit_are_an_error(
    against: Any, configuration: Any, git: Any, gate: Any
) -> None:
    against(configuration(), configuration())
    git("checkout", "--quiet", "--orphan", "other")
    git("commit", "--quiet", "--message", "other", "--allow-empty")
    assert gate(configuration(), "--base", "main", quick=False)[0] == 2


def test_a_first_configuration_has_nothing_to_be_held_against(
    gate: Any, git: Any, configuration: Any, mine: Any
) -> None:
    git("init", "--quiet", "--initial-branch", "main")
    git("commit", "--quiet", "--message", "base", "--allow-empty")
    assert gate(configuration(), "--base", "main", quick=False)[0] == 0


def test_a_configuration_in_a_folder_of_the_repository_is_found(
    git: Any, configuration: Any, tmp_path: Path, dpaudit: Any, mine: Any, alone: None
) -> None:
    git("init", "--quiet", "--initial-branch", "main")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "mine.py").write_text((tmp_path / "mine.py").read_text())
    (inner / "pyproject.toml").write_text(configuration())
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    (inner / "pyproject.toml").write_text(configuration().replace("3.0", "4.0"))
    result = dpaudit("gate", "--config", "inner/pyproject.toml", "--base", "main")
    assert result.exit_code == 1
    assert "policy-loosened" in result.stdout


@pytest.mark.parametrize("linked", ["pyproject.toml", "inner"])
def test_a_configuration_behind_a_link_is_none_that_the_base_has(
    git: Any, configuration: Any, tmp_path: Path, dpaudit: Any, mine: Any, alone: None, linked: str
) -> None:
    """The name stays, and what stands behind it is another file, of which the merge base knows nothing."""
    git("init", "--quiet", "--initial-branch", "main")
    inner, other = tmp_path / "inner", tmp_path / "other"
    for folder in (inner, other):
        folder.mkdir()
        (folder / "mine.py").write_text((tmp_path / "mine.py").read_text())
    (inner / "pyproject.toml").write_text(configuration().replace("3.0", "1.0"))
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    arguments = "gate", "--config", "inner/pyproject.toml", "--base", "main"
    assert "max-epsilon" in dpaudit(*arguments).stdout
    (other / "pyproject.toml").write_text(configuration())
    if linked == "inner":
        shutil.rmtree(inner)
        inner.symlink_to(other)
    else:
        (inner / linked).unlink()
        (inner / linked).symlink_to(other / linked)
    result = dpaudit(*arguments)
    assert result.exit_code == 2
    assert "is a link" in " ".join(result.stderr.split())
    assert dpaudit(*arguments[:3]).exit_code == 0


def test_a_submodule_in_the_configurations_place_brings_no_rules_of_its_own(
    git: Any, configuration: Any, tmp_path: Path, dpaudit: Any, mine: Any, alone: None
) -> None:
    """It has a branch of the base's name, with rules that the change chose."""
    git("init", "--quiet", "--initial-branch", "main")
    inner, other = tmp_path / "inner", tmp_path.parent / f"{tmp_path.name}-other"
    for folder in (inner, other):
        folder.mkdir()
        (folder / "mine.py").write_text((tmp_path / "mine.py").read_text())
        (folder / "pyproject.toml").write_text(configuration())
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    git("checkout", "--quiet", "-b", "change")
    for command in (("init", "--initial-branch", "main"), ("add", "--all"), ("commit", "--message", "own")):
        git("-C", str(other), *command)
    shutil.rmtree(inner)
    git("rm", "--quiet", "-r", "--cached", "inner")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "inner")
    git("commit", "--quiet", "--message", "change")
    arguments = "gate", "--config", "inner/pyproject.toml", "--base", "main"
    result = dpaudit(*arguments)
    assert result.exit_code == 2
    assert "now lies in a submodule" in " ".join(result.stderr.split())
    git("branch", "--quiet", "--force", "main", "change")  # it was a submodule before, too
    assert dpaudit(*arguments).exit_code == 0


def test_a_link_above_the_repository_is_no_part_of_a_change(
    git: Any, configuration: Any, tmp_path: Path, dpaudit: Any, mine: Any, alone: None
) -> None:
    """As /tmp is on macOS."""
    git("init", "--quiet", "--initial-branch", "main")
    (tmp_path / "pyproject.toml").write_text(configuration())
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    above = tmp_path.parent / f"{tmp_path.name}-by-another-name"
    above.symlink_to(tmp_path)
    result = dpaudit("gate", "--config", above / "pyproject.toml", "--base", "main")
    assert result.exit_code == 0, result.output


def test_a_base_that_cannot_be_followed_is_an_error(against: Any, configuration: Any) -> None:
    status, rules, report = against("[tool.dpaudit]\nnonsense = 1\n", configuration())
    assert (status, rules) == (2, ["input"])
    assert "pyproject.toml at " in report["findings"][0]["message"]
