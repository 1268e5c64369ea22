"""The notebooks of the documentation run as they are, and show what they show today.

To write the outputs into the notebooks, run this with ``STOREBENCH_KEEP_OUTPUTS=1`` on a quiet machine.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pathlib
import re
from typing import Any

import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[3] / "docs/notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


def outputs_of(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Runs a cell, and returns its outputs as a notebook keeps them."""
    code = ast.parse(source)
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    outputs: list[dict[str, Any]] = []
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "cell", "exec"), names)
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    if out.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(out.getvalue())})
    if shown is not None:
        data = {"text/plain": lines(repr(shown))}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = lines(shown._repr_html_())
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return outputs


def lines(text: str) -> list[str]:
    """A text as a notebook keeps it, with paths from the current folder."""
    return text.replace(f"{pathlib.Path.cwd()}/", "").splitlines(keepends=True)


def words(output: dict[str, Any]) -> list[str]:
    """The words of an output, without figures. Of a run only the question: the rest depends on the machine."""
    data = output.get("data", {})
    text = "".join(output.get("text", data.get("text/plain", [])))
    if "text/html" in data:
        text = re.findall(">([^<>]+)<", "".join(data["text/html"]))[0]
    return re.findall(r"[^\W\d_]{2,}", text)


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_shows_what_is_kept(notebook: pathlib.Path, here: pathlib.Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    kept = 0
    for number, cell in enumerate((cell for cell in content["cells"] if cell["cell_type"] == "code"), 1):
        source = "".join(cell["source"])
        outputs = outputs_of(source, names, number)
        if os.environ.get("STOREBENCH_KEEP_OUTPUTS"):
            cell["outputs"], cell["execution_count"] = outputs, number
        elif "run.checks" not in source and "storebench.gate" not in source:
            # What checks and gates find depends on the machine.
            assert [words(output) for output in outputs] == [words(output) for output in cell["outputs"]], source
        kept += len(cell["outputs"])
    assert kept > 5
    if os.environ.get("STOREBENCH_KEEP_OUTPUTS"):
        notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
