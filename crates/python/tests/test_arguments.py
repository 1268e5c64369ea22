"""Arguments that cannot be used: every public function refuses them with the package's own error, in Python's words."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any, cast

import pytest
import storebench
from storebench import _errors
from test_verbs import STUDY

a: Any = storebench
"""The functions without their types."""

THING = object()

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: a.bench("memory:", docs=THING), "^docs: expected text, a number, a path, True or False, or a list, not <object"),
    (lambda: a.bench("memory:", docs={"a": 1}), r"^docs: expected .*, not \{'a': 1\}"),
    (lambda: a.bench("memory:", key=b"{id}"), r"^key: expected .*, not b'\{id\}'"),
    (lambda: a.bench("memory:", docs=[True]), "^docs: expected text, a number or a path, not True"),
    (lambda: a.bench("memory:", no_such_option=1), "^unexpected argument 'no_such_option' found"),
    (lambda: a.bench(5), "^a store is a URL or a class, not 5"),
    (lambda: a.bench("caf\udce9:"), "is not valid Unicode"),
    (lambda: a.run(5), "^study: expected a path, the name of a built-in study, TOML text or a dictionary, not 5"),
    (lambda: a.plan(b"first-look"), "^study: expected a path"),
    (lambda: a.plan({"title": THING}), "^a study: Object of type object"),
    (lambda: a.verify("memory:", None), "^study: expected a path"),
    (lambda: a.run(STUDY, set=5), r'^set: expected texts such as "phases.mixed.rate=500", not 5'),
    (lambda: a.run(STUDY, set={"seed": 5}), "^set: expected texts"),
    (lambda: a.run(STUDY, set=[5]), "^set: expected text, not 5"),
    (lambda: a.copy("a.jsonl", 5), "^a store is a URL or a class, not 5"),
    (lambda: a.copy("a.jsonl", "b.jsonl", max_errors=None, tries=[1, None]), "^tries: expected text, a number or a path, not None"),
    (lambda: a.compare(5), "^a run: expected a Run, its folder, .* not 5"),
    (lambda: a.compare([]), "^a run: expected a Run"),
    (lambda: a.merge(b"parts"), "^a run: expected a Run"),
    (lambda: a.open_run(5), "^path: expected a path, not 5"),
    (lambda: a.gate("runs/a", "read.response.p99 < 5ms"), "^run: expected a Run, such as that of open_run"),
    (lambda: a.documents(STUDY, "books", -1, 5), "^start: expected a whole number from 0, not -1"),
    (lambda: a.documents(STUDY, "books", 0, 2.5), "^stop: expected a whole number from 0, not 2.5"),
    (lambda: a.documents(STUDY, "books", version=2**64), "^version: expected a whole number from 0"),
    (lambda: a.documents(STUDY, 5), "^collection: expected text, not 5"),
    (lambda: a.documents(STUDY, "books", scale=float("nan")), "^scale: expected a number above 0, not nan"),
    (lambda: a.documents(STUDY, "books", scale="2"), "^scale: expected a number above 0, not '2'"),
    (lambda: a.read(5), "^a store is a URL or a class, not 5"),
    (lambda: a.read("a.jsonl", infer=THING), "^infer: expected text, a number"),
    (lambda: a.conform(5), "^a store is a URL or a class, not 5"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_bad_argument_is_named(number: int) -> None:
    call, says = REFUSED[number]
    with pytest.raises(storebench.BadInput, match=says):
        call()


def test_a_run_refuses_bad_arguments(short: storebench.Run) -> None:
    run = cast(Any, short)
    times = run.histogram("read", "bench")
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: run.table(5), "^name: expected text, not 5"),
        (lambda: run.table("nothing"), "^unknown table `nothing`; expected one of intervals"),
        (lambda: run.histogram(5, "bench"), "^op: expected text, not 5"),
        (lambda: run.histogram("read", "bench", "times"), "^unknown series `times`; expected one of response"),
        (lambda: run.histogram("read", "bench", trial="1"), "^trial: expected a whole number from 1, not '1'"),
        (lambda: run.histogram("write", "bench"), "no operation `write` in a phase `bench`"),
        (lambda: times.percentile("p99"), "^p99 is not a percentile; use 0 to 100"),
        (lambda: times.percentile(101), "^101 is not a percentile"),
        (lambda: a.gate(run, 5), "^a condition: expected text, not 5"),
        # It would accept what it should not.
        (lambda: a.gate(run, undecided="Fail"), """^undecided: expected "fail" or "pass", not 'Fail'"""),
    ]
    for call, says in refused:
        with pytest.raises(storebench.BadInput, match=says):
            call()


def test_messages_name_options_as_python_does(here: pathlib.Path) -> None:
    for name in ("books", "films"):
        (here / f"{name}.jsonl").write_text(json.dumps({"_id": "a"}) + "\n")
        storebench.copy(f"{name}.jsonl", "sqlite:shop.db", to_collection=name, progress=False)
    with pytest.raises(storebench.BadInput, match="from_collection") as caught:
        storebench.copy("sqlite:shop.db", "out.jsonl", progress=False)
    assert "--" not in str(caught.value)
    with pytest.raises(storebench.BadInput, match=r"\bcollection\b") as caught:
        storebench.read("sqlite:shop.db")
    assert "from" not in str(caught.value) and "--" not in str(caught.value)


def test_options_are_translated() -> None:
    for shell, python in [
        ("use --resume to continue or --restart", "use resume=True to continue or restart=True"),
        ("raise --max-errors, or see `storebench copy --help`", "raise max_errors, or see `storebench copy --help`"),
        ("add --from a.jsonl or --store URL", "add from_ a.jsonl or stores=URL"),
        ("unexpected argument '--no-such' found", "unexpected argument 'no_such' found"),
        ("a value -- with --dashes and a--resume", "a value -- with --dashes and a--resume"),
    ]:
        assert _errors.in_python(shell) == python == _errors.in_python(python)
