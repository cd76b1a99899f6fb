"""Examples that are programs say how they are called."""

import subprocess
from pathlib import Path

from tests.sweeps import sweep

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@sweep(
    "name, arguments",
    [
        ("patients.py", []),
        ("patients.py", ["words"]),
        ("patients.py", ["mend", "a.csv", "b.csv"]),
        ("patients.py", ["words", "absent.csv", "b.csv"]),
        ("patients.py", ["words", "same.csv", "same.csv"]),
        ("audit_opendp.py", ["many"]),
        ("audit_opendp.py", ["-3"]),
        ("audit_opendp.py", ["1", "2"]),
        ("audit_diffprivlib.py", ["0"]),
        ("audit_diffprivlib.py", ["1.5"]),
    ],
    everyday=(1, 3, 4, 6, 9),
)
def test_wrong_arguments_are_answered_by_the_right_ones(
    name: str, arguments: list[str], python: list[str], tmp_path: Path
) -> None:
    same = tmp_path / "same.csv"
    same.write_text("episode,step,state,action,reward,next_state\n", encoding="utf-8")
    command = [*python, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)
    assert result.returncode == 1
    assert result.stderr.startswith(f"usage: python examples/{name}")
    assert list(tmp_path.iterdir()) == [same]
