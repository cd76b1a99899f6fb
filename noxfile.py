"""The project's habits: `nox` runs what every change must pass, `nox -s NAME` one session."""

from __future__ import annotations

import nox

nox.options.sessions = ["check", "test"]
nox.options.reuse_existing_virtualenvs = True

SPARK = "tests/tables/test_spark.py"


@nox.session
def check(session: nox.Session) -> None:
    """Lint, formatting, types and layers."""
    session.install("-e", ".[test]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy", "--strict")
    session.run("lint-imports", "--no-logo")


@nox.session
def test(session: nox.Session) -> None:
    """Every test and doctest but the nightly ones; `nox -s test -- --cov` measures coverage."""
    session.install("-e", ".[test]")
    session.run("pytest", "-q", *session.posargs)


@nox.session
def near(session: nox.Session) -> None:
    """The tests that matter for a file, nearest first, in under a minute: `nox -s near -- FILE`."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.near", *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """Everything, the slow tests too, and each property on many fresh examples."""
    session.install("-e", ".[test]")
    session.run(
        "pytest",
        "-q",
        "-m",
        "not interoperability and not torture and not training and not graphics",
        "--hypothesis-profile=nightly",
        *session.posargs,
    )


@nox.session
def torture(session: nox.Session) -> None:
    """Thousands of broken inputs, kills, full disks and writers at once: writes docs/reliability.md."""
    session.install("-e", ".[test]")
    session.run("python", "docs/programs/make_reliability.py", *session.posargs)


@nox.session
def validity(session: nox.Session) -> None:
    """A thousand audits of true claims by each method: writes into docs/auditing/auditing.md how many err."""
    session.install("-e", ".[test]")
    session.run("python", "docs/programs/make_validity.py", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """One wrong sign at a time where a bound would be false: `-- FILE`, `-- --sample N --seed S` for a part.

    A run that was stopped goes on where it was; one that ends writes its files' figures into CONTRIBUTING.md.
    """
    session.install("-e", ".[test]")
    session.env.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    session.run("python", "tests/mutation/session.py", "--write", *session.posargs)


@nox.session
def interoperability(session: nox.Session) -> None:
    """What needs libraries too large for every change, other people's and engines for tables."""
    session.install("-e", ".[engines,opacus,pipelinedp,smartnoise,synthetic,test]")
    session.install("--no-deps", "lifelines")  # for the public study that it ships, and nothing else of it
    session.run("pytest", "-q", "-m", "interoperability", f"--ignore={SPARK}", *session.posargs)


@nox.session
def spark(session: nox.Session) -> None:
    """Tables on a Spark cluster of two executors; needs Java 17, Debian's `default-jre-headless`."""
    session.install("-e", ".[spark,test]")
    session.run("pytest", "-q", "-n", "0", "-m", "interoperability", SPARK, *session.posargs)


@nox.session
def training(session: nox.Session) -> None:
    """Training with Opacus, PyTorch and JAX, each in its build for processors."""
    own = "https://download.pytorch.org/whl/cpu"
    session.install("--extra-index-url", own, "-e", ".[jax-privacy,opacus,test,torch]")
    session.run("pytest", "-q", "-m", "training", *session.posargs)


@nox.session
def graphics(session: nox.Session) -> None:
    """Training with PyTorch on a graphics processor, of which the machine needs one."""
    session.install("-e", ".[test,torch]")
    session.run("pytest", "-q", "-n", "0", "-m", "graphics", *session.posargs)


@nox.session(python=["3.11", "3.12", "3.13"], venv_backend="uv|virtualenv")
@nox.parametrize("libraries", ["newest", "lowest"])
def versions(session: nox.Session, libraries: str) -> None:
    """The suite on each Python with the newest libraries, and on 3.11 with the oldest that are declared."""
    if libraries == "lowest" and session.python != "3.11":
        session.skip("the oldest libraries have no wheels for a newer Python")
    resolution, left_out = ["--upgrade"], []
    if libraries == "lowest":
        resolution = ["--resolution", "lowest-direct"]
        left_out = [
            "--deselect=tests/docs/test_extending.py::test_the_extended_tree_has_correct_types",
            "--deselect=tests/docs/test_package_page.py::test_the_package_has_correct_types",
        ]
        session.warn(
            "types are not checked: numpy's annotations before 2.4 are not what the code is written for"
        )
    session.run_install("uv", "pip", "install", *resolution, "-e", ".[test]", external=True)
    session.run("pytest", "-q", *left_out, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The pages, as HTML in docs/_build."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """How long things take; runs are kept in .benchmarks: `-- --benchmark-compare` shows the last one."""
    session.install("-e", ".[bench]")
    # One process and one thread: waiting for others would be measured too.
    session.env.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    alone = ("-o", "addopts=--import-mode=importlib", "-o", "python_files=bench_*.py")
    session.run("pytest", "benchmarks", *alone, "--benchmark-autosave", *session.posargs)
    session.run("python", "benchmarks/everyday.py", "--check")


@nox.session
def compare(session: nox.Session) -> None:
    """Every accountant side by side: writes docs/benchmarks.md, in about three quarters of an hour."""
    session.install("-e", ".[peers]", "opacus>=1.5")
    session.run("python", "benchmarks/peers/compare.py", *session.posargs)
    session.run("python", "benchmarks/peers/bench_samples.py", "--write")
