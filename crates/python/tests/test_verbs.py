"""The verbs, their options, errors and progress."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
import storebench
from storebench._call import Done

STUDY = {
    "title": "Books",
    "seed": 7,
    "stores": ["memory:"],
    "collections": {"books": {"count": 200, "size": "100B", "key": "b/{index}"}},
    "phases": [
        {"name": "load", "load": ["books"], "batch": 50},
        {"name": "mixed", "mix": {"read": 3, "update": 1}, "operations": 1_000},
    ],
}


def test_a_study_is_a_dictionary_a_text_or_a_file(here: pathlib.Path) -> None:
    text = pathlib.Path(here / "books.toml")
    text.write_text('title = "Books"\nstores = ["memory:"]\n[collections.books]\ncount = 10\n[[phases]]\nname = "load"\nload = ["books"]\n')
    for study in (STUDY, text.read_text(), text, str(text)):
        plan = storebench.plan(study)
        assert plan["title"] == "Books" and plan["phases"][0]["name"] == "load"
    assert sorted(path.name for path in here.iterdir()) == ["books.toml"], "nothing is left"
    assert storebench.plan("first-look")["phases"]


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
def test_a_study_runs_on_chosen_stores_with_overrides(here: pathlib.Path) -> None:
    run = storebench.run(STUDY, {"a": "memory:", "b": "memory:"}, set=["phases.mixed.operations=300"], out="runs")
    assert {trial["store"] for trial in run.result["trials"]} == {"a", "b"}
    counts = [sum(op["count"] for op in trial["phases"][1]["ops"].values()) for trial in run.result["trials"]]
    assert counts == [300, 300]
    assert run.folder is not None and run.folder.parent == here / "runs"
    assert run.name == "study" and run.folder.name.startswith("study-")
    again = storebench.open_run(run.folder)
    assert again.result == run.result and again.exit_code is None


def test_documents_are_copied_verified_and_compared(here: pathlib.Path) -> None:
    (here / "books.jsonl").write_text("".join(json.dumps({"id": n, "title": f"t{n}"}) + "\n" for n in range(50)))
    report = storebench.copy("books.jsonl", "sqlite:books.db", key="{id}", verify=True, progress=False)
    assert (report["counts"]["written"], report["counts"]["rejected"]) == (50, 0)
    storebench.copy("sqlite:books.db", here / "out.jsonl", progress=False)
    assert len((here / "out.jsonl").read_text().splitlines()) == 50
    assert "nothing was written" in storebench.copy("books.jsonl", "new.jsonl", dry_run=True, progress=False)["dry_run"]
    (here / "bad.jsonl").write_text('{"id": 1}\n[2]\n')
    with pytest.raises(storebench.DataLost, match="1 rejected") as caught:
        storebench.copy("bad.jsonl", "sqlite:bad.db", key="{id}", progress=False)
    assert caught.value.report is not None and caught.value.report["counts"]["written"] == 1
    # It would change the copy's data.
    with pytest.raises(storebench.BadInput, match="discard_existing=True"):
        storebench.bench("sqlite:books.db", docs=10, progress=False)


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
def test_a_load_is_verified_and_runs_are_compared(here: pathlib.Path) -> None:
    stores = "sqlite:verify.db"
    first = storebench.run(STUDY, stores, out="runs", progress=False)
    second = storebench.run(STUDY, stores, out="runs", progress=False)
    report = storebench.verify(stores, STUDY, progress=False)
    assert report["collections"][0]["missing"] == 0
    compared = storebench.compare(first, second)
    assert compared["format"].startswith("storebench-compare/")


def test_errors_have_the_words_of_the_command_line() -> None:
    with pytest.raises(storebench.BadInput, match="unexpected argument 'no_such_option'") as caught:
        storebench.bench("null:", no_such_option=1)
    assert caught.value.code == 2 and isinstance(caught.value, ValueError)
    with pytest.raises(storebench.BadInput, match="unknown collection `reads`|reads"):
        storebench.plan({**STUDY, "phases": [{"name": "load", "load": ["reads"]}]})
    with pytest.raises(storebench.BadInput, match="cannot be read"):
        storebench.open_run("no-such-run")
    with pytest.raises(storebench.Unreachable):
        storebench.bench("redis://127.0.0.1:1", progress=False)
    with pytest.raises(storebench.BadInput, match="a study"):
        storebench.plan({"title": object()})


def test_an_invalid_run_is_returned_with_a_warning(
    short: storebench.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Done(4, json.dumps(short.result), "the measurement is invalid: send-delay", False, ["a message"])
    monkeypatch.setattr("storebench._call.call", lambda words, progress: ended)
    with pytest.warns(storebench.StorebenchWarning, match="the measurement is invalid: send-delay"):
        run = storebench.bench("null:")
    assert (run.exit_code, run.result, run.messages) == (4, short.result, ["a message"])


def test_other_threads_run_meanwhile(here: pathlib.Path) -> None:
    ticks = 0
    over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.is_set():
            ticks += 1
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    thread.start()
    storebench.bench("null:", docs=10, warm_up="0s", duration="1s", progress=False)
    over.set()
    thread.join()
    assert ticks > 20


def test_ctrl_c_ends_a_run_and_keeps_what_was_measured(here: pathlib.Path) -> None:
    program = """
import storebench
try:
    storebench.bench("null:", docs=10, warm_up="0s", duration="60s", out="runs", progress=True)
except KeyboardInterrupt as error:
    print("ended:", error)
"""
    python = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
    )
    assert python.stderr is not None and python.stdout is not None
    # It shows that it runs.
    assert python.stderr.read(1)
    time.sleep(1.5)
    python.send_signal(signal.SIGINT)
    out, _ = python.communicate(timeout=30)
    assert f"ended: the run was interrupted; what was measured is in {here}/runs/" in out, out
    kept = storebench.open_run(out.strip().rsplit(" ", 1)[1])
    assert kept.result["run"]["interrupted"] and kept.trials().to_pylist()[0]["count"] > 0


def test_the_command_is_the_same_program(here: pathlib.Path) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "storebench", *words], capture_output=True, text=True)

    version = command("--version")
    assert version.returncode == 0 and version.stdout.startswith("storebench ")
    assert command("bench", "nonsense:").returncode == 2
    done = command("bench", "null:", "--docs", "10", "--warm-up", "0s", "--duration", "300ms", "--json", "--quiet")
    assert json.loads(done.stdout)["format"] == "storebench-run/3"


def test_importing_needs_no_other_package() -> None:
    program = "import sys; import storebench; print(sorted({name.split('.')[0] for name in sys.modules} & {'pyarrow', 'polars', 'pandas', 'numpy', 'duckdb', 'IPython'}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
