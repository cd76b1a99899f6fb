"""What docs/auditing/replay.md says of its two snippets is what they give."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "auditing" / "replay.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_snippets_give_what_their_comments_say() -> None:
    first, second = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(first, names)  # noqa: S102  (the page's own code)
    audit = names["audit"]
    assert f"  # {audit.verdict}, {audit.epsilon_lower:.3f}\n" in first
    exec(second.replace("\nreplay(", "\ngiven_alone = replay("), names)  # noqa: S102
    audit = names["audit"]
    assert f"  # {names['given_alone']}: no x changes\n" in second
    assert f'  # {audit.verdict}, and the finding is in "{audit.findings[0].label}"\n' in second
