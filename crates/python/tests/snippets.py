"""The Python code that the documentation shows. Each block must run by itself, with its own imports."""

from __future__ import annotations

import pathlib
import re
from typing import Any

ROOT = pathlib.Path(__file__).parents[3]
PAGES = ["README.md", "crates/python/README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def snippets(page: str) -> list[str]:
    """The blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(page: str, number: int, edits: dict[str, str]) -> dict[str, Any]:
    """Runs a block, with what this machine has in place of what it names. Returns its names."""
    code = snippets(page)[number]
    for before, after in edits.items():
        assert before in code, f"{page} does not contain {before}"
        code = code.replace(before, after)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, page, "exec"), names)
    return names
