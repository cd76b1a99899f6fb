"""Whether the tests notice one wrong sign where it would make a bound false: `nox -s mutation`.

    python tests/mutation/session.py [FILE ...] [--sample N] [--seed S] [--write]

FILE is all or part of a listed file's path, or the path of any other file or folder of the product, whose
tests are those of the folder of the same name.

Every test that may matter is collected once, and run once to see which lines it runs through. For each mutant
a child process is forked, the functions' code is exchanged in it, and the tests of the changed line run,
those of the file's own tests first, until one fails. What is found is kept in .mutation, line by line: a run
that was stopped goes on there, and a mutant is tried again only where its file or the test that noticed it
has changed, or where none did and some test has. Survivors are listed in explained.toml, with the reason why
no bound is false, or are faults of the tests: then the exit code is 1. `--write` writes the figures of the
files that were run into CONTRIBUTING.md; those of the others stay.

Libraries for this do not serve here. mutmut 3 does not follow the links of the tree, and leaves out decorated
functions (the costs) and constants; cosmic-ray starts pytest anew for each of its mutants, five seconds each.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import gc
import hashlib
import importlib
import json
import os
import random
import re
import resource
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from mutants import Mutant, mutants, mutated

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".mutation"
EXPLAINED = Path(__file__).with_name("explained.toml")
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- written by nox -s mutation -->", "<!-- end -->"
#: The tests of how releases are put together.
FOLD = tuple(f"accountants/composition/test_{name}.py" for name in ("composition", "plain_columns", "groups"))
#: The tests of an audit's bound and verdict, one event or many bets.
STATISTICS = tuple(f"auditors/statistics/test_{name}.py" for name in ("betting", "sequential", "threshold"))
#: The tests of mechanisms on samples of bounded size, and of the pairs that dominate them.
BATCHES = "mechanisms/samples", "accountants/pairs/test_batches.py", "curator/test_coins.py"
#: The tests of the exact loss, of recordings that are shifted for it, and of samplers.
SAMPLES = "auditors/replay/samples/test"
LOSSES = f"{SAMPLES}_exact_loss_enumerated.py", f"{SAMPLES}_exact_loss.py"
SHIFTED = f"{SAMPLES}_importance_sampling.py", f"{SAMPLES}_hidden_samples.py"
#: Where a wrong sign makes a bound false, each with the tests that are to notice it.
FILES = {
    "dpaudit/models.py": ("accountants/closed_forms/test_rounding.py", "claims", "test_models.py"),
    "dpaudit/accountants/closed_forms/rounding.py": ("accountants/closed_forms",),
    "dpaudit/claims/relations.py": ("claims/test_relations.py",),
    "dpaudit/accountants/closed_forms/conversions.py": ("accountants/closed_forms",),
    "dpaudit/curator/clipping.py": ("curator/test_clipping.py",),
    "dpaudit/curator/curator.py": ("curator",),
    "dpaudit/curator/batches.py": ("curator",),
    "dpaudit/curator/streams.py": ("curator",),
    "dpaudit/curator/coins.py": ("curator/test_coins.py",),
    "dpaudit/curator/mapping.py": ("curator/test_mapping.py", "curator/test_purity.py"),
    "dpaudit/curator/records.py": ("curator/test_mapping.py", "curator/test_one_sample.py"),
    "dpaudit/curator/purity/allowed.py": ("curator/test_purity.py",),
    "dpaudit/curator/purity/reader.py": ("curator/test_purity.py",),
    "dpaudit/curator/purity/sources.py": ("curator/test_purity.py",),
    "dpaudit/mechanisms/samples/batches.py": BATCHES,
    "dpaudit/noise/contributions.py": ("noise/test_contributions.py", "curator/test_exact_sums.py"),
    "dpaudit/noise/sums.py": ("noise/test_sums.py", "curator/test_release_gram.py"),
    "dpaudit/accountants/composition/costs.py": ("accountants/composition/test_costs.py",),
    "dpaudit/accountants/composition/composition.py": FOLD,
    "dpaudit/accountants/composition/plain_columns.py": FOLD,
    "dpaudit/accountants/composition/one_sample.py": ("accountants/composition/test_one_sample.py",),
    "dpaudit/ledger/columns.py": ("ledger/test_lines.py", *FOLD),
    "dpaudit/accountants/closed_forms/columns.py": ("accountants/closed_forms/test_columns.py", *FOLD[:2]),
    "dpaudit/accountants/closed_forms/ranges.py": ("accountants/closed_forms",),
    "dpaudit/accountants/calibration/calibration.py": ("accountants/calibration",),
    "dpaudit/accountants/calibration/check.py": ("accountants/calibration/test_check.py",),
    "dpaudit/accountants/closed_forms/gaussian.py": ("accountants/closed_forms/test_gaussian.py",),
    "dpaudit/accountants/curves/curves.py": ("accountants/curves/test_curves.py",),
    "dpaudit/accountants/curves/rdp.py": ("accountants/curves/test_rdp.py",),
    "dpaudit/accountants/curves/sampled_orders.py": ("accountants/curves/test_sampled_orders.py",),
    "dpaudit/accountants/curves/conversion_table.py": ("accountants/curves/test_conversion_table.py",),
    "dpaudit/accountants/curves/implied.py": ("accountants/curves/test_implied.py", "accountants/filters"),
    "dpaudit/accountants/curves/profile_points.py": ("accountants/curves/test_profile_points.py",),
    "dpaudit/accountants/interval/interval.py": ("accountants/interval",),
    "dpaudit/accountants/filters/filters.py": ("accountants/filters",),
    "dpaudit/accountants/filters/odometers.py": ("accountants/filters",),
    "dpaudit/accountants/filters/renyi.py": ("accountants/filters",),
    "dpaudit/auditors/statistics/betting.py": STATISTICS,
    "dpaudit/auditors/statistics/threshold.py": STATISTICS,
    "dpaudit/auditors/statistics/gdp.py": ("auditors/statistics/test_gdp.py",),
    "dpaudit/auditors/statistics/clopper_pearson.py": ("auditors/statistics/test_clopper_pearson.py",),
    "dpaudit/auditors/statistics/two_proportions.py": ("auditors/statistics/test_two_proportions.py",),
    "dpaudit/auditors/statistics/sequential.py": ("auditors/statistics/test_sequential.py",),
    "dpaudit/auditors/statistics/claim_points.py": ("auditors/statistics/test_claim_points.py",),
    "dpaudit/auditors/statistics/samples.py": ("auditors/statistics/test_samples.py",),
    "dpaudit/auditors/statistics/tails.py": ("auditors/statistics/test_tails.py",),
    "dpaudit/auditors/statistics/learning/classifier.py": ("auditors/statistics/learning",),
    "dpaudit/auditors/statistics/gaussian_pair.py": ("auditors/statistics/test_gaussian_pair.py",),
    "dpaudit/auditors/statistics/right_guesses.py": ("auditors/statistics/test_right_guesses.py",),
    "dpaudit/auditors/sampling/one_run.py": ("auditors/sampling/test_one_run.py",),
    "dpaudit/auditors/sampling/exact_ratio.py": ("auditors/sampling/test_sampling.py",),
    "dpaudit/auditors/replay/exact_loss.py": LOSSES,
    "dpaudit/auditors/replay/importance_sampling.py": SHIFTED,
    "dpaudit/auditors/replay/likelihood.py": (*SHIFTED, *LOSSES),
    "dpaudit/auditors/replay/sampler_check.py": (f"{SAMPLES}_sampler_check_tables.py",),
}
#: Fixtures of tests that look at other processes, in which nothing is exchanged.
ELSEWHERE = {"python", "own_processes"}
#: A survivor outlives all of the file's own and named tests, and others up to so many seconds of theirs.
ENOUGH = 5.0


def digest(*paths: Path) -> str:
    """A hash of files' contents."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def in_child(work: Callable[[], Any], seconds: float) -> Any:
    """What some work returns in a forked process; None where that dies, or takes too long."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.alarm(int(20 * seconds))  # for one that waits and computes nothing
        with os.fdopen(writer, "w", encoding="utf-8") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, encoding="utf-8") as pipe:
            content = pipe.read()
        return json.loads(content) if content else None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def tests_of(file: str) -> list[str]:
    """Where the tests are that are to notice a file's mutants; of a file that is not listed, its folder's."""
    folder = Path(file).parent.relative_to("dpaudit").as_posix()
    return [f"tests/{path}" for path in FILES.get(file, (folder,))]


def belongs(test: str, file: str) -> bool:
    """Whether a test, by its name for pytest, is one of those that are to notice a file's mutants."""
    return test.startswith((file, *tests_of(file)))


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all inside it, in order."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


class Target:
    """A file under test, with the functions that were made of it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        self.source = Path(ROOT, file).read_text(encoding="utf-8")
        self.digest = digest(ROOT / file)
        self.mutants = list(mutants(self.source))
        path = str(self.module.__file__)
        self._codes = list(codes(compile(self.source, path, "exec", dont_inherit=True)))
        of_file = (
            f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == path
        )
        self._functions = list(of_file)
        assert {f.__code__ for f in self._functions} & set(self._codes)

    def exchange(self, mutant: Mutant) -> None:
        """Put a mutant in the file's place, in this process."""
        tree = mutated(self.source, mutant)
        if not mutant.function:
            self._constant(next(node for node in tree.body if node.lineno == mutant.lines[0]))
            return
        new = codes(compile(tree, str(self.module.__file__), "exec", dont_inherit=True))
        changed = {old: code for old, code in zip(self._codes, new, strict=True) if old != code}
        met = [function for function in self._functions if function.__code__ in changed]
        assert met, mutant
        for function in met:
            function.__code__ = changed[function.__code__]

    def _constant(self, statement: ast.stmt) -> None:
        """Compute a constant anew, for every module that has imported it by its name."""
        before = dict(vars(self.module))
        code = compile(ast.Module([statement], []), str(self.module.__file__), "exec", dont_inherit=True)
        exec(code, vars(self.module))  # noqa: S102  (a line of ours)
        for name, value in vars(self.module).items():
            if value is not before.get(name, value):
                for module in list(sys.modules.values()):
                    # `getattr(module, name)` may warn (mpmath.rational): the child would die, as if noticed.
                    if getattr(module, "__dict__", {}).get(name) is before[name]:
                        setattr(module, name, value)


class Session:
    """The plugin of pytest that runs the mutants instead of the tests."""

    def __init__(self, files: list[str], sample: int | None, seed: int) -> None:
        self.files, self.sample, self.seed = files, sample, seed
        self.failed: str | None = None
        self.states: list[tuple[str, Mutant, str]] = []
        self.stopped = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings  # not before pytest, which rewrites it

        phases = (Phase.explicit, Phase.generate)  # one failing example is enough: none is made smaller
        settings.register_profile("mutation", settings.get_profile("ci"), phases=phases)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not ELSEWHERE & set(getattr(item, "fixturenames", ()))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        gc.unfreeze()  # what is frozen is not among the objects
        self.targets = {file: Target(file) for file in self.files}
        self.items = {item.nodeid: item for item in session.items}
        self._see()
        caches = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
        self.caches = [one for one in caches if str(one.__module__).startswith("dpaudit")]
        gc.freeze()  # what is here is shared with the children, and not looked through in each
        try:
            self._try()
        except KeyboardInterrupt:
            self.stopped = True
        return True

    def _run(self, names: Iterable[str]) -> str | None:
        """The first of some tests that fails."""
        items = [self.items[name] for name in names]
        for item, following in zip(items, [*items[1:], None], strict=True):
            signal.setitimer(signal.ITIMER_VIRTUAL, 3.0 + 5.0 * self.seconds[item.nodeid])  # ends the child
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return self.failed
        return None

    def _see(self) -> None:
        """Which lines each test runs through, and how long it takes; kept for each file of tests."""
        listed = set(self.files) <= set(FILES)
        self.watched = list(FILES) if listed else self.files
        kept = KEPT / ("lines.json" if listed else "lines-of-others.json")
        sources = digest(*(ROOT / file for file in self.watched))
        known: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("sources") != sources:
            known = {"sources": sources, "modules": [], "files": {}}
        by_file = defaultdict(list)
        for name in self.items:
            by_file[name.partition("::")[0]].append(name)
        self.digests = {file: digest(ROOT / file) for file in by_file}
        seen = known["files"]
        fresh = [file for file in by_file if seen.get(file, {}).get("digest") != self.digests[file]]
        if fresh:
            names = [name for file in fresh for name in by_file[file]]
            print(f"{len(names)} tests run once, to see which lines they run through", flush=True)
            found = in_child(lambda: self._lines(names), 3600)
            if found is None or found["failed"]:
                raise pytest.UsageError(f"a test fails without any mutant: {found and found['failed']}")
            known["modules"] = sorted({*known["modules"], *found["modules"]})
            for file in fresh:
                tests = {name: found["tests"][name] for name in by_file[file]}
                seen[file] = {"digest": self.digests[file], "tests": tests}
            kept.write_text(json.dumps(known))
        for name in known["modules"]:  # once here rather than in every child
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001, S112  (a module that is there by another way)
                continue
        self.seconds: dict[str, float] = {}
        self.through: dict[str, dict[int, set[str]]] = {file: defaultdict(set) for file in self.watched}
        for file in by_file:
            for name, (seconds, lines) in known["files"][file]["tests"].items():
                self.seconds[name] = seconds
                for target, numbers in lines.items():
                    for number in numbers:
                        self.through[target][number].add(name)

    def _lines(self, names: list[str]) -> dict[str, Any]:
        by_path = {os.path.realpath(ROOT / file): file for file in self.watched}
        watch = coverage.Coverage(data_file=None, config_file=False, include=list(by_path))
        tests: dict[str, tuple[float, dict[str, list[int]]]] = {}
        watch.start()
        for name, following in zip(names, [*names[1:], None], strict=True):
            watch.switch_context(name)
            begun, item = time.process_time(), self.items[name]
            after = self.items[following] if following else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            tests[name] = time.process_time() - begun, defaultdict(list)
        watch.stop()
        data = watch.get_data()
        for path in data.measured_files():
            for line, contexts in data.contexts_by_lineno(path).items():
                for name in set(contexts) & set(tests):
                    tests[name][1][by_path[os.path.realpath(path)]].append(line)
        modules = [name for name in sys.modules if name.startswith(("dpaudit.", "scipy.", "numpy.", "flint"))]
        return {"tests": tests, "failed": self.failed, "modules": modules}

    def _chosen(self, file: str, mutant: Mutant, before: str | None) -> list[str]:
        """The tests of a mutant: what noticed it before, the file's own and named ones, then the quickest."""
        through = self.through[file]
        lines = mutant.lines if mutant.function else tuple(through)
        own, named = f"test_{Path(file).stem}", tuple(path for path in tests_of(file) if path.endswith(".py"))

        def order(name: str) -> tuple[bool, bool, float]:
            elsewhere = not (Path(name.partition("::")[0]).name.startswith(own) or name.startswith(named))
            return name != before, elsewhere, self.seconds[name]

        spent, chosen = 0.0, []
        found = set().union(*(through[line] for line in lines))
        for name in sorted((name for name in found if belongs(name, file)), key=order):
            spent += self.seconds[name]
            if spent > ENOUGH and chosen and order(name)[1]:
                break
            chosen.append(name)
        return chosen

    def _try(self) -> None:
        whole = [(file, mutant) for file in self.files for mutant in self.targets[file].mutants]
        chosen = whole
        if self.sample is not None:
            picked = set(random.Random(self.seed).sample(range(len(whole)), min(self.sample, len(whole))))  # noqa: S311
            chosen = [one for place, one in enumerate(whole) if place in picked]
        explained = explanations()
        kept = KEPT / "results.jsonl"
        rows = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
        known = {tuple(row["mutant"]): row for row in map(json.loads, rows)}
        for file, mutant in chosen:
            target = self.targets[file]
            if reason(explained, file, mutant):
                self.states.append((file, mutant, "explained"))
                continue
            key = (file, target.digest, mutant.line, mutant.change)
            row = known.get(key)
            if row is None or row["tests"] != self._tests(file, row["by"]):
                before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
                row = {"mutant": key, **self._outcome(target, mutant, row and row["by"])}
                row["seconds"] = round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before, 2)
                with kept.open("a", encoding="utf-8") as results:
                    results.write(json.dumps(row) + "\n")
            state = "survived" if row["by"] is None else "killed"
            self.states.append((file, mutant, state))
            if state == "survived":
                print(f"survived: {file}:{mutant.line}: {mutant.change}\n    {mutant.text}", flush=True)

    def _tests(self, file: str, by: str | None) -> str | None:
        """What a result rests on: the test that noticed a mutant, or all of them."""
        if by:
            return self.digests.get(by.partition("::")[0], "stopped")
        own = sorted(value for name, value in self.digests.items() if belongs(name, file))
        return hashlib.sha256("".join(own).encode()).hexdigest()[:16]

    def _outcome(self, target: Target, mutant: Mutant, before: str | None) -> dict[str, str | None]:
        tests = self._chosen(target.file, mutant, before)
        limit = 5.0 + 3.0 * sum(self.seconds[name] for name in tests)

        def work() -> list[str | None]:
            gc.disable()
            target.exchange(mutant)
            for cached in self.caches:
                cached.cache_clear()
            return [self._run(tests)]

        found = in_child(work, limit) if tests else [None]
        by = "stopped: it died, or took too long" if found is None else found[0]
        return {"by": by, "tests": self._tests(target.file, by)}


def explanations() -> list[dict[str, str]]:
    """What explained.toml says of mutants that no test can notice, or none need."""
    return list(tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["explained"])


def reason(explained: list[dict[str, str]], file: str, mutant: Mutant) -> str | None:
    """Why a mutant makes no bound false; None where nothing is said of it."""
    for entry in explained:
        where = entry["file"] == file and entry.get("function", mutant.function) == mutant.function
        if where and entry.get("text", mutant.text) == mutant.text:
            changes = entry.get("changes", mutant.change)
            if mutant.change in ([changes] if isinstance(changes, str) else changes):
                return entry["why"]
    return None


def figures(states: list[tuple[str, Mutant, str]]) -> dict[str, tuple[int, ...]]:
    """Each file's lines, and how many of its mutants were tried, found, explained, and neither."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for file, _, state in states:
        counts[file][state] += 1
    return {
        file: (
            len(Path(ROOT, file).read_bytes().splitlines()),
            count.total(),
            *(count[state] for state in ("killed", "explained", "survived")),
        )
        for file, count in counts.items()
    }


def table(rows: dict[str, tuple[int, ...]]) -> str:
    """The files' figures, and their sums."""
    lines = ["| file | lines | mutants | noticed | explained | survived |", "|---|---:|---:|---:|---:|---:|"]
    named = [(f"`{file.removeprefix('dpaudit/')}`", rows[file]) for file in sorted(rows)]
    whole = tuple(map(sum, zip(*rows.values(), strict=True)))
    for name, row in [*named, ("all", whole)]:
        lines.append(f"| {name} | " + " | ".join(f"{figure:,}" for figure in row) + " |")
    return "\n".join(lines) + "\n"


def write(rows: dict[str, tuple[int, ...]]) -> None:
    """Put files' figures in the place of their old ones on the page."""
    start, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    old, _, end = rest.partition(END)
    kept = {}
    for name, row in re.findall(r"^\| `([\w/.]+)` \| (.+) \|$", old, re.MULTILINE):
        file = Path("dpaudit", name).as_posix()
        if file in FILES:
            kept[file] = tuple(int(figure.replace(",", "")) for figure in row.split(" | "))
    PAGE.write_text(f"{start}{BEGIN}\n\n{table(kept | rows)}\n{END}{end}", encoding="utf-8")


def met(part: str) -> list[str]:
    """The files that are meant: listed ones with this in their paths, else the file or the folder itself."""
    listed = [file for file in FILES if part in file]
    path = Path("dpaudit", part.removeprefix("dpaudit/"))
    others = sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []
    return listed or [file.as_posix() for file in others if list(mutants(file.read_text(encoding="utf-8")))]


def main() -> int:
    """Run the mutants, print what was found, and write it down where all were run."""
    parser = argparse.ArgumentParser(description="mutation run", allow_abbrev=False)
    parser.add_argument("files", nargs="*", metavar="FILE", help="all or part of a path, or a whole one")
    parser.add_argument("--sample", type=int, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--write", action="store_true", help="the figures into CONTRIBUTING.md")
    options = parser.parse_args()
    os.chdir(ROOT)
    files = sorted({file for part in options.files or [""] for file in met(part)})
    if not files:
        parser.error(f"no such file, nor any among {', '.join(FILES)}")
    KEPT.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C
    session = Session(files, options.sample, options.seed)
    tests = sorted({path for file in files for path in tests_of(file)})
    quiet = ["-q", "-q", "-s", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"]
    if pytest.main([*quiet, *tests, *files], plugins=[session]) not in {
        0,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    }:
        return 2
    explained, told = explanations(), defaultdict(list)
    for file, mutant, state in session.states:
        if state == "explained":
            told[reason(explained, file, mutant)].append(f"{file}:{mutant.line}: {mutant.change}")
    for why, places in told.items():
        print(f"\nexplained: {why}\n    " + "\n    ".join(places))
    found = figures(session.states)
    print("\n" + table(found))
    survivors = sum(state == "survived" for _, _, state in session.states)
    if options.write and options.sample is None and not session.stopped:
        write({file: row for file, row in found.items() if file in FILES})
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
