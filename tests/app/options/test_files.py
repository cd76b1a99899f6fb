import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dpaudit.app.options.files import require_no_input
from dpaudit.errors import UsageError

DATA = Path(__file__).parents[2] / "data"

Invoke = Callable[..., Result]


def test_the_same_file_by_any_name(tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    source.write_text("{}", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    link, hard = tmp_path / "link.json", tmp_path / "hard.json"
    link.symlink_to(source)
    os.link(source, hard)
    for output in (source, tmp_path / "folder" / ".." / "source.json", link, hard):
        with pytest.raises(UsageError, match="written over"):
            require_no_input(output, tmp_path / "absent", source)
    other = tmp_path / "other.json"
    require_no_input(other, source)
    other.write_text("{}", encoding="utf-8")
    require_no_input(other, source, tmp_path / "absent")


def test_an_import_does_not_replace_its_source(refusal: Any, tmp_path: Path) -> None:
    source = tmp_path / "history.json"
    shutil.copyfile(DATA / "opacus_1.6.0_rdp.json", source)
    before = source.read_bytes()
    assert "would be written over" in refusal("import", source, "-o", source, "--unit", "image")
    assert source.read_bytes() == before


def test_a_report_does_not_replace_its_certificate(refusal: Any, tmp_path: Path) -> None:
    certificate = tmp_path / "certificate.json"
    certificate.write_text("{}", encoding="utf-8")
    assert "would be written over" in refusal("report", certificate, "-o", certificate)
    assert certificate.read_text(encoding="utf-8") == "{}"
