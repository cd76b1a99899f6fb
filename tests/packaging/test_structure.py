"""The structure's own numbers: lines, files a folder, and the rooms that `certify` walks through.

`pytest -n 0 -s tests/packaging/test_structure.py` prints them. That no imports run in circles and that each
layer imports only what lies below it, import-linter checks.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("dpaudit", "accountants", "auditors", "algorithms")
#: Where the other Python files are.
BESIDE = ("tests", "benchmarks", "docs", "examples")
MOST_LINES, MOST_FILES, MOST_ROOMS = 38_000, 14, 15

#: Capability that version 0.1 did not have, and what of it stands in files of its own: these lines are
#: printed and not limited, since `MOST_LINES` is what the first version's capability may take.
NEW = {
    "a gate held to its merge base": "dpaudit/app/gate/base.py",
    "exact noise": "dpaudit/noise/",
    "replaced units in Poisson samples": "accountants/privacy_loss/contour/replaced_gaussian.py",
    "discrete Gaussian noise composed exactly": "accountants/pairs/discrete_gaussian.py",
    "noisy max, sparse vector, private selection, shuffling": "dpaudit/mechanisms/selecting/",
    "sparse vector through the curator": "dpaudit/curator/thresholds.py",
    "sparse vector with Gaussian noise": "accountants/pairs/comparisons.py",
    "private selection through the curator": "dpaudit/curator/tuning.py",
    "private selection by its theorems": "accountants/pairs/tuning.py",
    "shuffled answers by their profile": "accountants/pairs/shuffled.py",
    "completion in a shell": "dpaudit/app/verbs/completion.py",
    "tables in a notebook": "dpaudit/notebook.py",
    "how far work has come": "dpaudit/progress.py",
    "pages over many certificates": "dpaudit/app/site/",
    "what git knows of a file": "dpaudit/app/git.py",
    "which epsilon a noise has": "dpaudit/pipeline/epsilon.py",
    "the same as a verb": "dpaudit/app/verbs/planning/epsilon.py",
    "mechanisms from plain numbers": "dpaudit/mechanisms/described.py",
    "the same as options and plans": "dpaudit/app/options/mechanism_options.py",
    "samples of fixed and of bounded size": "dpaudit/mechanisms/samples/batches.py",
    "what is proved of them": "accountants/pairs/batches.py",
    "any proved profile as a term": "accountants/pairs/profiles.py",
    "arguments of a wrong type refused": "dpaudit/claims/arguments.py",
    "correlated noise": "dpaudit/mechanisms/correlated/",
    "mixtures and random allocation": "dpaudit/mechanisms/samples/mixtures.py",
    "their tables of losses": "accountants/pairs/mixtures.py",
    "sampled sums step by step through the curator": "dpaudit/curator/turns.py",
    "a start without scipy's optimisers": "accountants/closed_forms/search.py",
    "findings at the line of the claim": "dpaudit/app/gate/places.py",
    "releases at their line": "dpaudit/ledger/places.py",
    "one writer for an output folder": "dpaudit/ledger/lock.py",
    "answers to NIST SP 800-226": "dpaudit/app/report/evaluation.py",
    "drafts for the OpenDP registry": "dpaudit/app/report/registry.py",
    "targets in processes of their own": "dpaudit/processes/",
    "the same as options": "dpaudit/app/options/processes.py",
    "the same in certificates": "dpaudit/certificate/process.py",
    "training": "algorithms/training/",
    "where dpaudit was installed from": "dpaudit/app/origin.py",
    "the command as a module": "dpaudit/__main__.py",
    "private group-bys of data frames": "dpaudit/tables/",
    "a target's own words kept out of reports": "dpaudit/app/text/target_text.py",
    "features that see scale, order and ties": "auditors/statistics/learning/features.py",
    "events chosen by a smooth likelihood ratio": "auditors/statistics/tails.py",
    "one run under any privacy curve": "auditors/statistics/right_guesses.py",
    "scores learned without another library": "auditors/statistics/learning/logistic.py",
    "lines read in blocks": "dpaudit/ledger/blocks.py",
    "releases in columns": "dpaudit/ledger/columns.py",
    "a million mechanisms in columns": "accountants/composition/plain_columns.py",
    "many sampled mechanisms in arrays": "accountants/privacy_loss/contour/many_sampled.py",
    "their best Renyi order by Newton's method": "accountants/curves/sampled_orders.py",
    "a folder of ledgers, on one machine or many": "dpaudit/pipeline/many.py",
    "the same on the command line": "dpaudit/app/verbs/folder.py",
    "other libraries' noise through a curator": "auditors/libraries/",
    "batches that are drawn before their rows": "dpaudit/curator/batches.py",
    "a budget at one Renyi order": "accountants/filters/renyi.py",
    "a model card's block": "dpaudit/app/report/model_card.py",
    "canaries for training": "auditors/sampling/training_canaries.py",
    "training with other libraries": "dpaudit/gradients.py",
    "training with Opacus": "dpaudit/opacus.py",
    "training with PyTorch": "dpaudit/torch.py",
    "training with JAX": "dpaudit/jax.py",
    "sampled runs in processes of their own": "auditors/sampling/elsewhere.py",
    "densities of sums over secret samples": "dpaudit/mechanisms/samples/subsets.py",
    "recordings of them drawn where the loss is large": "auditors/replay/hidden_samples.py",
    "shares of a budget": "dpaudit/pipeline/shares.py",
    "a search for worse pairs": "auditors/replay/pair_search.py",
    "the instance of a lower bound": "algorithms/environments/hard_mixture.py",
    "private UCB-VI": "algorithms/online/dp_ucbvi.py",
    "the learner of the authors' code": "algorithms/q_learning/deep_q.py",
    "the paths of the authors' code": "algorithms/q_learning/coded_path.py",
    "private policy gradient": "algorithms/online/dp_policy_gradient.py",
    "the two in the catalogue": "algorithms/online/entries.py",
    "regret of private UCB-VI": "dpaudit/app/figures/qiao_wang_2024.py",
    "losses of private policy gradient": "dpaudit/app/figures/he_zhou_2025.py",
}

#: The same where it stands in a file that the first version had: what it is, the file, and how many lines.
GROWN: dict[str, tuple[str, int]] = {
    "quick starts and exits, kinds, plots": ("dpaudit/app/main.py, options, text, mechanisms", 46),
    "budgets stated with a delta": ("accountants/curves/implied.py, dpaudit/app/verbs/book.py", 34),
    "reports whose figures are computed again, forms by ending": ("dpaudit/app/verbs/report.py", 62),
    "what a page says of figures that were not": ("dpaudit/app/report/report_page.py", 8),
    "calibrated noise enclosed in balls at once": ("accountants/calibration/check.py, interval", 27),
    "families without releases passed over": ("accountants/closed_forms/columns.py, privacy_loss", 4),
    "events chosen on the runs that scores are learned from": ("auditors/statistics", 10),
    "a ledger read back from the disk": ("dpaudit/ledger/ledger.py", 6),
    "files written under a lock, the certificate last": ("dpaudit/app/verbs/certify.py", 6),
    "what the tables hold": ("dpaudit/certificate, dpaudit/ledger/ledger.py", 55),
    "signatures without validators": ("dpaudit/models.py", 34),
    "what was meant by a curator's method": ("dpaudit/curator/curator.py", 20),
    "a start without scipy's special functions": ("accountants/closed_forms/gaussian.py, contour, ...", 16),
    "one run under any curve, runs made elsewhere": (
        "auditors/sampling/one_run.py, dpaudit/pipeline, ...",
        115,
    ),
    "the two where all noise is sampled": ("accountants/curves/rdp.py, composition.py, contour", 12),
    "streams of several mechanisms": ("dpaudit/mechanisms/streams.py", 42),
    "a test of correlated noise": ("auditors/replay/sampler_check.py", 17),
    "a test of a choice among very many": ("auditors/replay/sampler_check.py", 6),
    "correlated noise in the union": ("dpaudit/mechanisms/__init__.py", 9),
    "correlated noise by its names": ("dpaudit/__init__.py", 10),
    "mixtures and allocation in the union": ("dpaudit/mechanisms/__init__.py and dominating.py", 34),
    "mixtures and allocation, pair by pair": ("accountants/pairs and composition/costs.py", 22),
    "a stream of what is none": ("dpaudit/curator/curator.py", 6),
    "a second opinion on correlated noise": ("accountants/bridges/dp_accounting_check.py", 6),
    "what no enclosure is known of": ("accountants/interval/interval_bounds.py", 15),
    "mixtures from dp-accounting": ("accountants/bridges/from_dp_events.py", 18),
    "participations as a condition": ("dpaudit/certificate/conditions.py", 2),
    "participations in words": ("dpaudit/app/text/conditions.py", 4),
    "what a split by values rests on": ("accountants/conditions.py, dpaudit/certificate, app/text", 7),
    "questions that another process can answer": ("dpaudit/curator and dpaudit/mechanisms", 54),
    "verbs that open their targets elsewhere": ("dpaudit/app/verbs/audit.py, certify.py, gate", 63),
    "runs, replays and stand-ins elsewhere": ("dpaudit/pipeline/certify.py, audit.py, auditors/replay", 80),
    "sampled runs and their scores elsewhere": ("auditors/sampling, dpaudit/pipeline, options", 69),
    "rows mapped from one record each": ("dpaudit/curator, certificate, claims, ledger", 119),
    "conditions of what is inside, trials held to theirs": ("accountants/conditions.py, dpaudit/curator", 76),
    "how they end, and what is left on trust": ("dpaudit/errors.py, certificate, app/text", 53),
    "copies of what cannot change": ("dpaudit/models.py", 5),
    "a replaced unit's own part in calibrate": ("dpaudit/app/verbs/planning/calibrate.py", 8),
    "runs that do not end as findings": ("dpaudit/app/gate, app/options/foreign_code.py", 23),
    "the same in pytest's reports": ("dpaudit/app/testing/pytest_plugin.py", 48),
    "configurations behind a link refused": ("dpaudit/app/verbs/gate.py", 3),
    "the releases that grew over a baseline": ("dpaudit/app/gate/policy.py", 24),
    "samples of any mechanism": ("dpaudit/mechanisms/samples/sampled.py, dominating.py, __init__.py", 93),
    "their cost in every accountant": ("accountants", 185),
    "samples from dp-accounting": ("accountants/bridges/from_dp_events.py", 77),
    "their runtime and certificates": ("dpaudit/curator, certificate and __init__.py", 11),
    "outcomes of any kind": ("auditors/sampling and statistics/learning/classifier.py, samples.py", 226),
    "sums by turns and over sampled records": (
        "mechanisms/samples/sampled.py, dpaudit/curator, ...",
        144,
    ),
    "divergences of what a table leaves open": ("accountants/pairs/moments.py, curves/rdp.py, ...", 125),
    "calibrated comparisons and mixtures": ("accountants/calibration, bridges, curves/rdp.py", 119),
    "report noisy max, monotone scores": ("dpaudit/mechanisms, curator, auditors/replay, ...", 38),
    "sparse vector in unions and matches": ("dpaudit/mechanisms, curator, accountants, ...", 79),
    "shuffled answers in unions and matches": ("dpaudit/mechanisms, curator, accountants, ...", 50),
    "tables and keys by their names": ("dpaudit/mechanisms/__init__.py and __init__.py", 8),
    "wrong words and types answered with what to give": ("dpaudit/models.py, mechanisms, app/options", 26),
    "targets whose arguments are counted": ("dpaudit/app/options/targets.py", 16),
    "claims on another scale refused before any run": ("auditors/sampling/sampling.py, statistics/gdp.py", 7),
    "releases that exceed their claims alike": ("dpaudit/app/text/tables.py", 2),
    "tables that bring their own pairs": ("auditors, dpaudit/processes, pipeline, curator, app", 57),
    "data of several kinds for --data, types stated": ("dpaudit/app/options/data_files.py", 282),
    "targets of other libraries as an option": ("dpaudit/app/options/targets.py, verbs/audit.py, ...", 22),
    "the same in audits and conditions": ("dpaudit/pipeline/audit.py, certificate, app/text", 17),
    "sensitivities of opaque mechanisms": ("dpaudit/mechanisms/opaque.py", 36),
    "selected keys by their names": ("dpaudit/mechanisms/__init__.py and __init__.py", 4),
    "tables through the curator": ("dpaudit/curator/curator.py", 48),
    "sampling in groups, what was left open in a sentence": ("dpaudit/app/report", 35),
    "streams that clip what they add up": ("dpaudit/curator/streams.py, curator.py", 37),
    "trainers in the catalogue": ("algorithms/catalogue.py", 3),
    "limits that are asked for, installs that are found": ("dpaudit/app/verbs/init.py, gate/formats.py", 47),
    "private selection in unions and matches": ("dpaudit/mechanisms, curator, accountants, ...", 165),
    "rows of secret samples in transcripts": ("dpaudit/mechanisms, dpaudit/curator, auditors/replay", 147),
    "releases that no pair moved": ("auditors/replay, dpaudit/certificate, app/text, ...", 75),
    "as many replays as what is undecided needs": ("auditors/replay", 150),
    "a search that is asked for": ("auditors/replay/replay.py, pipeline/audit.py, app/options, gate", 47),
    "limits on time that are no evidence": ("auditors/replay/recording.py", 9),
    "what is added for the noise, as a parameter": ("algorithms/catalogue.py, offline", 4),
    "the instance of a lower bound by its name": ("algorithms/catalogue.py", 6),
    "two newer algorithms and their figures by name": ("algorithms/catalogue.py, app/figures", 5),
    "a penalty of Hoeffding's form": ("algorithms/offline/dp_apvi.py, algorithms/catalogue.py", 7),
    "from how many users on regret is no line": ("dpaudit/app/figures/regrets.py", 14),
    "lambda tuned beside the bonus": ("dpaudit/app/figures/ngo_vietri_wu_2022.py", 61),
    "the hard instance beside the rivers": ("dpaudit/app/figures/liao_he_gu_2023.py", 35),
    "constants tuned on other data": ("dpaudit/app/figures/qiao_wang_2023.py", 77),
    "forms as printed and as coded, side by side": ("algorithms/q_learning, catalogue.py, app/figures", 172),
    "pairs that force updates": ("algorithms/online/private_lsvi_ucb.py", 15),
    "work that says how far it has come": ("dpaudit/app, dpaudit/pipeline, accountants", 27),
    "figures out of range named by their options": ("dpaudit/models.py, app/options, app/verbs", 22),
    "options and methods that were meant, trials that raised": ("dpaudit/app, curator/curator.py", 26),
    "findings that quote no record": ("auditors, dpaudit/claims", 49),
    "releases whose sampler was not compared": ("auditors/replay/sampler_check.py, certificate, app", 21),
    "refused command lines and ranges in four parts": ("dpaudit/app/main.py, models.py, mechanisms", 44),
    "what a run raised, for the data's holder": ("dpaudit/pipeline/certify.py, app/verbs, app/gate", 17),
    "columns left out, what is said once": ("dpaudit/app/text, verbs", 29),
    "what stands in another's place": ("dpaudit/models.py, dpaudit/ledger/file.py", 19),
    "legends of the curves that are seen": ("dpaudit/app/report/report_charts.py", 30),
    "pages without pictures": ("dpaudit/app/report, verbs/report.py, figures", 30),
    "reports that stand in a site": ("dpaudit/app/report, text, verbs, main.py", 27),
    "folders of ledgers as an argument": ("dpaudit/app/verbs/verify.py", 21),
    "batches through the curator, drawn ahead": (
        "dpaudit/curator, dpaudit/mechanisms/samples/sampled.py",
        60,
    ),
    "canaries by their number, scores by name": ("dpaudit/app/options/audit_options.py, verbs/audit.py", 21),
    "a card as a format of reports": ("dpaudit/app/verbs/report.py", 20),
    "outputs that view other libraries' memory": ("auditors/comparison/output_comparison.py", 3),
    "one row of one user, contributions no less than bounds": ("dpaudit/curator", 23),
    "a Renyi filter under its own relation alone": ("dpaudit/curator/admission.py", 3),
    "what one Renyi order implies": ("accountants/curves, closed_forms, composition, filters", 7),
    "workers that can be stopped at any moment": ("auditors/sampling/workers.py", 29),
    "outputs compared as they were sent": ("auditors/comparison/output_comparison.py, replay/replay.py", 7),
    "blocks of lines read and composed": ("dpaudit/ledger, accountants and accountants/composition", 137),
    "watched places kept between runs, several runs watched at once": ("auditors/replay/rng_tripwire.py", 67),
    "release lines made of what earlier ones share": ("dpaudit/ledger, certificate", 35),
    "bets, lattices and mixtures in fewer steps": ("auditors/statistics/betting.py, accountants", 29),
    "bounds on two proportions from the worst cell": ("auditors/statistics/two_proportions.py", 11),
}

WALK = """
import sys
import dpaudit.app.main, dpaudit.app.verbs.certify

entered = {}
def note(frame, event, argument):
    if event == "call":
        name = frame.f_globals.get("__name__", "")
        if name.startswith("dpaudit."):
            entered[name] = None
sys.setprofile(note)
try:
    dpaudit.app.main.main(["certify", "dp-apvi", "--in-process"], prog_name="dpaudit")
finally:
    sys.setprofile(None)
    print(*entered, sep="\\n", file=sys.stderr)
"""
#: Rooms in which the command's work is shown, and none of it done.
SHOWN_IN = {"app", "progress"}


def lengths(root: Path, folders: Iterable[str] = PRODUCT) -> dict[str, int]:
    """How many lines each Python file in some folders has."""
    return {
        path.relative_to(root).as_posix(): len(path.read_bytes().splitlines())
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    }


def by_capability(lines: Mapping[str, int]) -> dict[str, int]:
    """The lines of each folder's old capability, of which some grew since, and of what is new."""
    total = dict.fromkeys((*PRODUCT, *NEW), 0)
    for name, number in lines.items():
        new = next((what for what, where in NEW.items() if name.startswith(where)), None)
        total[new or name.partition("/")[0]] += number
    return total


def of_the_first_version(lines: Mapping[str, int]) -> int:
    total = by_capability(lines)
    return sum(total[folder] for folder in PRODUCT) - sum(more for _, more in GROWN.values())


def crowded(names: Iterable[str]) -> dict[str, int]:
    """The folders that hold too many files, `__init__.py` not counted."""
    files = Counter(name.rpartition("/")[0] for name in names if not name.endswith("__init__.py"))
    print(f"\nfiles: {sum(files.values())} in {len(files)} folders; most: {files.most_common(3)}")
    return {folder: number for folder, number in files.items() if number > MOST_FILES}


def test_the_product_is_no_longer_than_it_was_agreed_to_be() -> None:
    lines = lengths(ROOT)
    old = of_the_first_version(lines)
    print(f"\nlines: {sum(lines.values())}: {by_capability(lines)}; of the first version's capability {old}")
    print(f"new capability in files that it had: {GROWN}")
    assert old <= MOST_LINES


def test_no_folder_holds_more_files_than_a_reader_can_survey() -> None:
    assert crowded(lengths(ROOT, (*PRODUCT, *BESIDE))) == {}
    assert crowded(f"room/file_{i}.py" for i in range(MOST_FILES + 1)) == {"room": MOST_FILES + 1}


@pytest.mark.usefixtures("own_processes")
def test_certify_walks_through_few_rooms(tmp_path: Path) -> None:
    """From the target to the verdict, with its runs in the one process that is watched."""
    done = subprocess.run(
        [sys.executable, "-c", WALK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    files = done.stderr.split()
    rooms = [room for room in dict.fromkeys(file.split(".")[1] for file in files) if room not in SHOWN_IN]
    print(f"\nrooms: {len(rooms)}, at most {MOST_ROOMS}, with {len(files)} files: {', '.join(rooms)}")
    assert "PROVED" in done.stdout
    assert {"curator", "accountants", "auditors", "certificate"} <= set(rooms)
    assert len(rooms) <= MOST_ROOMS
