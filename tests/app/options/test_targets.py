import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import Claim, PureDP, audit, certify
from dpaudit.app.options.data_files import read_array
from dpaudit.app.options.foreign_code import foreign_code, load
from dpaudit.app.options.targets import load_pair, load_target
from dpaudit.errors import DataError, UsageError

Mine = Callable[[str], str]


def complaint(target: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_target(target, data_file=None, parameters={})
    error = caught.value
    assert error.what
    assert error.where
    assert error.why
    assert error.remedy
    return str(error)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("dp-apvo", "did you mean 'dp-apvi'?"),
        ("mine.py", "add the function, as in mine.py:NAME"),
        ("mine.py:", "names no object"),
        (":sums", "names no object"),
        ("nowhere.py:sums", "nowhere.py is not there"),
        ("no_such_module_at_all:sums", "no module named 'no_such_module_at_all'"),
        ("json.no_such_part:sums", "No module named 'json.no_such_part'"),
        ("json:dump_it", "json has no 'dump_it'"),
    ],
)
def test_targets_that_are_not_there(target: str, said: str) -> None:
    assert said.lower() in complaint(target).lower()


def test_a_folder_a_number_a_class_and_a_near_miss(mine: Mine, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert "is a folder" in complaint(f"{tmp_path}/folder.py:sums")
    assert "of type int" in complaint(mine("number"))
    assert "is a class" in complaint(mine("Frozen"))
    assert "did you mean sums?" in complaint(mine("sum"))
    # A class is no algorithm, and a module no pair.
    assert "did you mean frozen?" in complaint(mine("Frozn"))
    with pytest.raises(UsageError) as caught:
        load_pair(mine("nope"))
    assert "do:  name something that it defines" in str(caught.value)


def test_a_function_that_does_not_take_data_and_a_curator(tmp_path: Path) -> None:
    own = tmp_path / "arguments.py"
    lines = (
        "def one(data): return data",
        "def three(data, curator, extra): return data",
        "def shown(data, *, flag='hidden'): return data",
        "def default(data, curator, extra=3): return data",
        "def any_number(*given): return given",
        "class Called:",
        "    def __call__(self, data, curator): return data",
        "instance = Called()",
    )
    own.write_text("\n".join(lines) + "\n")
    assert "takes (data) and cannot be called with two arguments" in complaint(f"{own}:one")
    assert "define it as (data, curator)" in complaint(f"{own}:three")
    assert "hidden" not in complaint(f"{own}:shown")
    for name in ("default", "any_number", "instance"):
        found = load_target(f"{own}:{name}", data_file=None, parameters={})
        assert found.reference == f"{own}:{name}"
    with pytest.raises(UsageError, match="define it as \\(data, generator\\)"):
        load_target(f"{own}:one", data_file=None, parameters={}, plain=True)


def test_the_same_from_python() -> None:
    def one(data: Any) -> Any:
        return data

    pair, claim = (np.zeros(1), np.ones(1)), Claim(PureDP(epsilon=1.0))
    calls: list[Callable[[Any], object]] = [
        lambda algorithm: audit(algorithm, pair, claim=claim),
        lambda algorithm: certify(algorithm, pair[0], claim=claim),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="takes \\(data\\) and cannot be called with two arguments"):
            call(one)


def test_an_algorithm_that_draws_its_own_noise_and_is_not_said_to(module: Any, dpaudit: Any) -> None:
    own = module(
        "import numpy as np\n"
        "def mean(data, rng): return data.mean() + rng.normal()\n"
        "def odd(data, curator): return curator.releese(data)\n"
        "def pair(): return np.zeros(2), np.ones(2)\n"
    )
    told = [
        dpaudit("audit", own(name), "--pair", own("pair"), "--epsilon", "1").stderr
        for name in ("mean", "odd")
    ]
    assert "a curator has no 'normal'" in told[0]
    assert "is audited with --plain" in told[0]
    assert "did you mean `release`?" in told[1]
    assert "--plain" not in told[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("raise RuntimeError('planted')", "RuntimeError while importing it"),
        ("import no_such_library", "ModuleNotFoundError (no_such_library) while importing it"),
        ("raise SystemExit(0)", "SystemExit"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_modules_that_fail_on_import(module: Any, content: str, said: str) -> None:
    message = complaint(module(f"\n{content}\n", "fails.py")("x"))
    assert said in message
    assert "(fails.py:2)" in message
    assert "planted" not in message


def test_modules_by_name_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("somewhere")
    package = tmp_path / "a_package_of_mine"
    package.mkdir()
    (package / "part.py").write_text("def sums(data, curator): return data\n")
    assert load("a_package_of_mine.part:sums", "TARGET")(1, None) == 1


def test_a_file_is_one_module_and_finds_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend("somewhere")
    (tmp_path / "beside_it.py").write_text("value = 3\n")
    path = tmp_path / "one.py"
    path.write_text("import beside_it\nclass Row: pass\ndef f(data, curator): return Row, beside_it.value\n")
    one, two = load(f"{path}:f", "TARGET"), load(f"{path}:Row", "--pair")
    assert one(None, None) == (two, 3)


def test_prints_of_a_module_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "talks.py"
    path.write_text("print('hello')\ndef f(data, curator): pass\n")
    said = f"{path}:f printed 1 line while importing it: not shown outside a terminal"
    load(f"{path}:f", "TARGET")
    assert capsys.readouterr() == ("", f"{said} without --show-target-errors\n")


def test_pairs(mine: Mine) -> None:
    assert load_pair(mine("pair")).data.shape == (5, 3)
    assert load_pair(mine("pair_object")).neighbour[0, 0] == -10.0
    with pytest.raises(UsageError, match=r"takes arguments(.|\n)*name a function without arguments"):
        load_pair(mine("sums"))


def test_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6))
    assert read_array(tmp_path / "a.npy").tolist() == [0, 1, 2, 3, 4, 5]
    for content in ("1,2\n3,4\n", "height,weight\n1,2\n3,4\n"):
        (tmp_path / "a.csv").write_text(content)
        assert read_array(tmp_path / "a.csv").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "a,b\n",
        "a,b\nc,d\n",
        "1,2\n3\n",
        "1,nan\n",
        "1,inf\n",
        "1,2\n3,x\n",
        "1,2\n\n3,4\n",
        "1,\n3,4\n",
        "1,x\n3,4\n",
        "a,1\n3,4\n",
    ],
)
def test_tables_that_are_no_finite_numbers(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(DataError):
        read_array(path)


@pytest.mark.parametrize(("content", "line"), [("1,2\n3\n", 2), ("a,b\n1,2\n3,\n", 3), ("1,x\n3,4\n", 1)])
def test_the_line_with_the_fault_is_named(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_array(path)
    assert caught.value.where == f"--data {path}:{line}"


@pytest.mark.parametrize("content", ["1,2\n3,4\n", "a,b\n1,2\n3,4\n", "1,2\r\n3,4\r\n\r\n"])
def test_a_byte_order_mark_hides_no_record(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xef\xbb\xbf" + content.encode())
    assert read_array(path).tolist() == [[1, 2], [3, 4]]


def test_arrays_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    for array in (np.array(["a"]), np.array([{}], dtype=object), np.array([np.nan]), np.zeros((0, 3))):
        np.save(path, array)
        with pytest.raises(DataError):
            read_array(path)
    path.write_bytes(b"not numpy")
    with pytest.raises(DataError):
        read_array(path)
    with pytest.raises(UsageError, match=r"\.xlsx"):
        read_array(tmp_path / "table.xlsx")


def test_what_child_processes_print_is_no_part_of_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with foreign_code("mine.py:sums", "running it", shown=True):
        os.write(1, b"from below\n")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    os.write(1, b"the answer\n")
    shown = capfd.readouterr()
    assert shown.out == "the answer\n"
    assert sorted(shown.err.splitlines()) == ["from a child", "from below"]


def test_an_array_whose_header_is_no_python_is_a_data_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"'shape': (3, 3)", b"'shape': (3, 3["))
    with pytest.raises(DataError, match="cannot be read"):
        read_array(tmp_path / "a.npy")


def test_a_file_that_python_2_wrote_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(3, 3), }  ", b"(3L, 3L), }"))
    assert read_array(tmp_path / "a.npy").tolist() == np.eye(3).tolist()
