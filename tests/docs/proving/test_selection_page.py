"""What docs/proving/selection.md shows is what happens."""

import re
import subprocess
from pathlib import Path

from tests.printed import is_printed

PAGE = (Path(__file__).parents[3] / "docs" / "proving" / "selection.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows(python: list[str], tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    script = tmp_path / "questions.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([*python, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert is_printed(done.stdout, shown), done.stdout
