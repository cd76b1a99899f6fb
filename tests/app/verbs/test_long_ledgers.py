"""`dpaudit verify` on ledgers of many releases: every one judged, few shown, little memory taken."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from dpaudit import ZCDP, Claim, Header, Neighbouring
from dpaudit.app.text.progress import LONG, progress_on
from dpaudit.progress import shown_by, words

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def long_ledger(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Write a ledger of different releases, by the text of the format alone."""
    folder = tmp_path_factory.mktemp("long")

    def write(
        number: int, kind: str = "gaussian", *, costly: frozenset[int] = frozenset(), rho: float = 1e6
    ) -> Path:
        path = folder / f"{kind}-{number}-{len(costly)}.jsonl"
        if path.exists():
            return path
        header = Header(
            algorithm="long", unit="row", neighbouring=Neighbouring.REPLACE_ONE, claim=Claim(ZCDP(rho=rho))
        )
        digest, lines = "", []
        for i in range(-1, number + 1):
            if i < 0:
                body = rfc8785.dumps(header.to_json())
            elif i == number:
                body = b'{"record":"footer","releases":%d}' % number
            else:
                scale = repr((0.5 if i in costly else 2.0) + (i + 0.5) / number).encode()
                noise = (
                    b'"gaussian","sensitivity":{"basis":"proved","norm":"l2","value":1},"sigma":' + scale
                    if kind == "gaussian"
                    else b'"laplace","scale":'
                    + scale
                    + b',"sensitivity":{"basis":"proved","norm":"l1","value":1}'
                )
                body = b'{"claimed":{"kind":"zcdp","rho":0.125},"count":1,"label":"step %d",' % i
                body += b'"mechanism":{"kind":' + noise + b'},"record":"release"}'
            digest = hashlib.sha256(digest.encode() + body).hexdigest()
            lines.append(body[:-1] + b',"hash":"' + digest.encode() + b'"}\n')
        path.write_bytes(b"".join(lines))
        return path

    return write


def test_the_answer_holds_ten_thousand_rows_and_counts_the_rest(answer: Any, long_ledger: Write) -> None:
    status, found = answer("verify", long_ledger(12_000))
    assert (status, found["verdict"]) == (0, "PROVED")
    assert (found["releases_total"], found["releases_shown"], found["releases_not_proved"]) == (
        12_000,
        10_000,
        0,
    )
    assert [row["label"] for row in found["releases"]] == [f"step {i}" for i in range(10_000)]
    exact = sum(0.5 / (2.0 + (i + 0.5) / 12_000) ** 2 for i in range(12_000))
    assert found["bounds"][0]["rho"] == pytest.approx(exact, rel=1e-12)


@pytest.mark.nightly
def test_every_release_that_fails_is_found_wherever_it_stands(
    answer: Any, dpaudit: Any, long_ledger: Write
) -> None:
    costly = frozenset([0, 5_000, 11_998, 11_999])
    path = long_ledger(12_000, costly=costly)
    status, found = answer("verify", path)
    assert (status, found["verdict"], found["releases_not_proved"]) == (1, "PROVED", 4)
    assert [row["label"] for row in found["releases"][:5]] == [
        *(f"step {i}" for i in sorted(costly)),
        "step 1",
    ]
    text = dpaudit("verify", path)
    assert text.exit_code == 1
    assert "12000 releases" in text.stdout.replace("\n", " ")
    for i in costly:
        assert f"release 'step {i}': claimed 0.125" in text.stdout
    assert len(text.stdout.splitlines()) < 60


def test_of_very_many_failures_forty_are_told_and_the_rest_counted(dpaudit: Any, long_ledger: Write) -> None:
    text = dpaudit("verify", long_ledger(3_000, costly=frozenset(range(2_000))))
    assert text.exit_code == 1
    assert text.stdout.count("release 'step") == 40
    assert "and 1960 more releases" in text.stdout


@pytest.mark.parametrize("claim", [["--unit", "user"], ["--epsilon", "1", "--delta", "1e-6"], []])
def test_a_file_that_was_edited_is_told_before_anything_else(
    dpaudit: Any, long_ledger: Write, tmp_path: Path, claim: list[str]
) -> None:
    whole = long_ledger(12_000).read_bytes()
    path = tmp_path / "edited.jsonl"
    path.write_bytes(whole.replace(b'"label":"step 11000"', b'"label":"step 21000"'))
    for verb in (["verify", *claim], ["ledger", "check"]):
        result = dpaudit(*verb, path)
        assert (result.exit_code, result.stdout) == (3, "")
        assert f"DPA206 {path}:11002" in result.stderr
    path.write_bytes(whole[:-100])
    result = dpaudit("verify", path, *claim)
    assert (result.exit_code, f"DPA205 {path}: no footer" in result.stderr) == (3, True)


def test_a_bar_is_shown_for_long_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "x\n"
    with path.open("wb") as file:
        file.truncate(LONG)
    seen: list[str] = []
    with shown_by(lambda under_way: seen.append(words(under_way))), progress_on(path) as progress:
        assert progress is not None
        progress(1_500_000)
        progress(LONG - 1_500_000)
    assert seen == ["0 of 20 MB of x\\n", "1 of 20 MB of x\\n", "20 of 20 MB of x\\n", ""]
    path.write_bytes(b"short")
    with progress_on(path) as progress:
        assert progress is None
    with progress_on(tmp_path / "none") as progress:
        assert progress is None


def test_ctrl_c_ends_with_a_word_and_no_traceback(long_ledger: Write) -> None:
    path = long_ledger(50_000)
    fifo = path.with_name("fifo")
    os.mkfifo(fifo)
    running = subprocess.Popen(
        [sys.executable, "-m", "dpaudit.app.main", "verify", fifo], stdout=-1, stderr=-1, text=True
    )
    with fifo.open("wb") as pipe:  # opened: it is reading now, and will wait for what does not come
        pipe.write(path.read_bytes()[:100_000])
        pipe.flush()
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, error = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert error.strip() == "interrupted: nothing was judged"


def verified(path: Path, *options: str) -> tuple[dict[str, Any], int, float]:
    """The answer of a fresh process, the calls that it made and the most memory it took, in MB."""
    # VmHWM and not ru_maxrss, which a process takes over from the one that started it.
    program = (
        "import cProfile, re, runpy, sys\n"
        "from pathlib import Path\n"
        "calls = cProfile.Profile(builtins=False)\n"
        "try:\n    calls.runcall(runpy.run_module, 'dpaudit.app.main', run_name='__main__', alter_sys=True)\n"
        "finally:\n"
        "    print(sum(each.callcount for each in calls.getstats()), file=sys.stderr)\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    print(re.search(r'VmHWM:\\s*(\\d+) kB', status)[1], file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program, "verify", path, "--output-format", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    calls, kilobytes = map(int, done.stderr.splitlines()[-2:])
    return json.loads(done.stdout), calls, kilobytes / 1024


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")


@pytest.fixture(scope="module")
def at_the_start(long_ledger: Write) -> int:
    """The calls that 12 000 releases take: imports, and all the rows that are ever shown."""
    return verified(long_ledger(12_000))[1]


@pytest.mark.nightly
@LINUX
def test_fifty_thousand_releases_take_little_time_and_memory(long_ledger: Write, at_the_start: int) -> None:
    found, calls, megabytes = verified(long_ledger(50_000))
    assert (found["verdict"], found["releases_total"]) == ("PROVED", 50_000)
    # Some 2 calls for each further release and 130 MB; one by one they would take 30 each and 250 MB.
    assert calls - at_the_start < 8 * (50_000 - 12_000)
    assert megabytes < 200


@LINUX
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("options", [[], ["--epsilon", "1000000", "--delta", "1e-6"]])
def test_a_million_different_releases_take_few_calls_and_little_memory(
    long_ledger: Write, at_the_start: int, kind: str, options: list[str]
) -> None:
    found, calls, megabytes = verified(long_ledger(1_000_000, kind), *options)
    assert (found["verdict"], found["releases_total"], found["releases_shown"]) == (
        "PROVED",
        1_000_000,
        10_000,
    )
    assert calls - at_the_start < 8 * (1_000_000 - 12_000)
    assert megabytes < 400
