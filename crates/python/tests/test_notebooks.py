"""The notebooks of the documentation run as they are."""

from __future__ import annotations

import ast
import json
import pathlib
from typing import Any

import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[3] / "docs/notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(notebook: pathlib.Path, here: pathlib.Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"], "outputs are not checked in"
        code = ast.parse("".join(cell["source"]))
        last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
        exec(compile(code, str(notebook), "exec"), names)
        if isinstance(last, ast.Expr):
            # As a notebook shows it.
            shown = eval(compile(ast.Expression(last.value), str(notebook), "eval"), names)
            shown._repr_html_() if hasattr(shown, "_repr_html_") else repr(shown)
