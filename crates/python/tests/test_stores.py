"""Stores that are Python classes."""

from __future__ import annotations

import asyncio
import functools
import json
import pathlib
import threading
import time
import warnings
from typing import Any

import pytest
import storebench
from storebench import _stores

Documents = dict[str, dict[str, bytes]]


class Store:
    """Documents in a dictionary, for all sessions."""

    data: Documents
    lock: threading.RLock

    def __init_subclass__(cls) -> None:
        cls.data, cls.lock = {}, threading.RLock()

    def read(self, collection: str, key: str) -> bytes | None:
        return self.data.get(collection, {}).get(key)

    def upsert(self, collection: str, key: str, document: bytes) -> None:
        self.data.setdefault(collection, {})[key] = document

    def insert(self, collection: str, key: str, document: bytes) -> bool:
        with self.lock:
            if self.read(collection, key) is not None:
                return False
            self.upsert(collection, key, document)
            return True

    def replace(self, collection: str, key: str, document: bytes) -> bool:
        with self.lock:
            if self.read(collection, key) is None:
                return False
            self.upsert(collection, key, document)
            return True

    def delete(self, collection: str, key: str) -> bool:
        return self.data.get(collection, {}).pop(key, None) is not None

    def append(self, collection: str, key: str, data: bytes) -> bool:
        with self.lock:
            before = self.read(collection, key)
            return before is not None and self.replace(collection, key, before + data)

    def prepend(self, collection: str, key: str, data: bytes) -> bool:
        with self.lock:
            before = self.read(collection, key)
            return before is not None and self.replace(collection, key, data + before)

    def counter(self, collection: str, key: str, delta: int, initial: int) -> int:
        with self.lock:
            before = self.read(collection, key)
            value = initial if before is None else int(before) + delta
            self.upsert(collection, key, str(value).encode())
            return value

    def merge_patch(self, collection: str, key: str, patch: bytes) -> bool:
        with self.lock:
            before = self.read(collection, key)
            return before is not None and self.replace(collection, key, json.dumps(merged(json.loads(before), json.loads(patch))).encode())

    def bulk_read(self, collection: str, keys: list[str]) -> list[tuple[str, bytes]]:
        found = ((key, self.read(collection, key)) for key in keys)
        return [(key, document) for key, document in found if document is not None]

    def scan(self, collection: str, start: str, end: str | None, limit: int) -> list[tuple[str, bytes]]:
        inside = (item for item in self.data.get(collection, {}).items() if start <= item[0] and (end is None or item[0] < end))
        return sorted(inside)[:limit]

    def prefix(self, collection: str, prefix: str, limit: int) -> list[tuple[str, bytes]]:
        return sorted(item for item in self.data.get(collection, {}).items() if item[0].startswith(prefix))[:limit]

    def collections(self) -> list[str]:
        return list(self.data)

    def create(self, collection: str) -> None:
        self.data.setdefault(collection, {})

    def drop(self, collection: str) -> None:
        self.data.pop(collection, None)


def merged(target: Any, patch: Any) -> Any:
    """A JSON Merge Patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def test_a_class_passes_the_conformance_suite() -> None:
    class Full(Store):
        pass

    report = storebench.conform(Full, progress=False)
    assert report["failed"] == 0 and report["passed"] > 70, report
    assert Full.data == {}, "the suite removes what it made"


def test_a_class_with_few_methods_and_coroutines_passes() -> None:
    class Few(Store):
        pass

    class Coroutines:
        """The least that a store needs, as coroutines."""

        async def read(self, collection: str, key: str) -> bytes | None:
            await asyncio.sleep(0)
            return Few().read(collection, key)

        async def upsert(self, collection: str, key: str, document: bytes) -> None:
            await asyncio.sleep(0)
            Few().upsert(collection, key, document)

        async def collections(self) -> list[str]:
            return Few().collections()

        async def drop(self, collection: str) -> None:
            Few().drop(collection)

    report = storebench.conform(Coroutines, progress=False)
    assert report["failed"] == 0 and report["passed"] > 20, report


def test_a_class_that_loses_writes_is_found_out() -> None:
    class Lossy(Store):
        def upsert(self, collection: str, key: str, document: bytes) -> None:
            if "storebench" in collection or len(document) < 30:
                super().upsert(collection, key, document)

    with pytest.raises(storebench.DataLost, match="checks failed") as caught:
        storebench.conform(Lossy, progress=False)
    assert caught.value.report is not None and caught.value.report["failed"] > 0


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
def test_a_busy_class_is_named_as_the_bottleneck_and_a_waiting_one_is_not() -> None:
    class Busy(Store):
        def read(self, collection: str, key: str) -> bytes | None:
            until = time.thread_time() + 0.002
            while time.thread_time() < until:
                pass
            return super().read(collection, key)

    class Waits(Store):
        def read(self, collection: str, key: str) -> bytes | None:
            time.sleep(0.02)
            return super().read(collection, key)

    def verdict(store: Any) -> str:
        run = storebench.bench(store, docs=100, size="100B", duration="3s", warm_up="0s", mix="read=1", workers=2, progress=False)
        severities = [check.severity for check in run.checks if check.name == "python-bound" and check.phase != "load"]
        assert len(severities) == 1, run.checks
        return severities[0]

    assert verdict(Busy) in {"caution", "invalid"}
    assert verdict(Waits) == "pass"


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
def test_sessions_are_made_and_closed_with_arguments() -> None:
    class Counted(Store):
        made = closed = 0

        def __init__(self, name: str) -> None:
            assert name == "here"
            type(self).made += 1

        def close(self) -> None:
            type(self).closed += 1

    store = functools.partial(Counted, "here")
    run = storebench.run(
        {
            "title": "t",
            "collections": {"books": {"count": 50, "size": "100B", "key": "b/{index}"}},
            "phases": [
                {"name": "load", "load": ["books"]},
                {"name": "mixed", "mix": {"read": 1, "update": 1}, "operations": 100, "workers": 3},
            ],
        },
        {"mine": store, "theirs": "memory:"},
        progress=False,
    )
    assert {trial["store"] for trial in run.result["trials"]} == {"mine", "theirs"}
    assert all(op["errors"] == 0 for trial in run.result["trials"] for phase in trial["phases"] for op in phase["ops"].values())
    # Also the objects of control calls.
    assert Counted.made == Counted.closed >= 5


def test_exceptions_say_what_happened_to_the_operation() -> None:
    class Fails(Store):
        def upsert(self, collection: str, key: str, document: bytes) -> None:
            if "storebench" in collection or key == "a":
                return super().upsert(collection, key, document)
            raise {"b": storebench.Refused("too large"), "c": ValueError("odd")}[key]

    pathlib.Path("a.jsonl").write_text('{"_id": "a"}\n{"_id": "b"}\n{"_id": "c"}\n')
    # Of a write that failed otherwise, nobody knows the outcome, so it is tried again.
    with pytest.raises(storebench.Unreachable, match="gave up after 2 attempts: outcome-unknown: ValueError: odd"):
        storebench.copy("a.jsonl", Fails, batch=1, tries=2, progress=False)
    pathlib.Path("b.jsonl").write_text('{"_id": "a"}\n{"_id": "b"}\n')
    with pytest.raises(storebench.DataLost, match="1 rejected") as caught:
        storebench.copy("b.jsonl", Fails, to_collection="a", batch=1, progress=False)
    assert caught.value.report is not None
    lines = pathlib.Path(caught.value.report["rejects"]).read_text().splitlines()
    assert [(json.loads(line)["key"], json.loads(line)["why"]) for line in lines] == [("b", "Refused: too large")]
    assert Fails.data["a"] == {"a": b"{}"}


def test_a_request_that_was_done_in_part_is_not_called_undone() -> None:
    class Half(Store):
        def upsert(self, collection: str, key: str, document: bytes) -> None:
            if key == "k5" and self.read(collection, "k4"):
                raise storebench.NotDone("full")
            super().upsert(collection, key, document)

    pathlib.Path("k.jsonl").write_text("".join(f'{{"_id": "k{n}"}}\n' for n in range(10)))
    with pytest.raises(storebench.DataLost, match="1 rejected") as caught:
        storebench.copy("k.jsonl", Half, tries=20, progress=False)
    assert caught.value.report is not None
    lines = pathlib.Path(caught.value.report["rejects"]).read_text().splitlines()
    assert [(json.loads(line)["key"], json.loads(line)["why"]) for line in lines] == [("k5", "NotDone: full")]
    assert set(Half.data["k"]) == {f"k{n}" for n in range(10)} - {"k5"}


def test_what_a_method_must_not_return_is_named() -> None:
    class Silent(Store):
        def insert(self, collection: str, key: str, document: bytes) -> Any:
            super().insert(collection, key, document)

    class Forgotten(Store):
        def upsert(self, collection: str, key: str, document: bytes) -> Any:
            async def later() -> None:
                pass

            if "storebench" not in collection:
                return later()
            return super().upsert(collection, key, document)

    pathlib.Path("a.jsonl").write_text('{"_id": "a"}\n')
    with pytest.raises(storebench.StorebenchError, match="returned None, expected True or False"):
        storebench.copy("a.jsonl", Silent, op="insert", tries=1, progress=False)
    with pytest.raises(storebench.DataLost, match="returned an awaitable; define it with `async def`"):
        storebench.copy("a.jsonl", Forgotten, progress=False)


def test_a_thread_keeps_its_variables_and_a_late_coroutine_is_cancelled() -> None:
    class Local(Store):
        local = threading.local()
        lost = 0

        def __init__(self) -> None:
            self.local.name = "kept"

        def read(self, collection: str, key: str) -> bytes | None:
            type(self).lost += getattr(self.local, "name", None) != "kept"
            return super().read(collection, key)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", storebench.StorebenchWarning)
        storebench.bench(Local, docs=50, operations=200, warm_up="0s", workers=2, progress=False)
    assert Local.lost == 0
    cancelled = []

    class Stuck:
        async def read(self, collection: str, key: str) -> bytes | None:
            if "storebench" not in collection:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(key)
                    raise
            return Local().read(collection, key)

        async def upsert(self, collection: str, key: str, document: bytes) -> None:
            Local().upsert(collection, key, document)

        async def insert(self, collection: str, key: str, document: bytes) -> bool:
            return Local().insert(collection, key, document)

        def collections(self) -> list[str]:
            return Local().collections()

        def drop(self, collection: str) -> None:
            Local().drop(collection)

    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", storebench.StorebenchWarning)
        storebench.bench(
            Stuck, docs=50, mix="read=1", duration="1s", warm_up="0s", timeout="200ms", discard_existing=True, progress=False
        )
    assert cancelled and time.monotonic() - began < 30


def test_the_url_of_a_class_is_the_same_in_every_call() -> None:
    class Mine(Store):
        def __init__(self, *_: str) -> None:
            pass

    first = _stores.url_of(functools.partial(Mine, "host", "password"))
    assert first == _stores.url_of(functools.partial(Mine, "host", "password")) and "password" not in first
    assert first != _stores.url_of(functools.partial(Mine, "other", "password"))
    same = type("Mine", (Mine,), {"__qualname__": Mine.__qualname__})
    with pytest.raises(storebench.BadInput, match="two classes are called"):
        storebench.run({"title": "t"}, {"a": Mine, "b": same})


def test_marks_of_others_stay_and_a_killed_emptying_is_finished() -> None:
    class Theirs(Store):
        marker: Any = None
        then: Any = None

        def drop(self, collection: str) -> None:
            super().drop(collection)
            if collection == "docs" and self.then is not None:
                type(self).then()

    def bench() -> None:
        storebench.bench(Theirs, docs=5, operations=5, warm_up="0s", progress=False)

    def marks() -> dict[str, str]:
        return dict(json.loads(Theirs.data["storebench-marker"]["marker"])["collections"])

    def other() -> None:
        # Another process marks a collection of its own while this one drops.
        assert marks() == {"docs": "json; removing"}
        changed = json.loads(Theirs.data["storebench-marker"]["marker"])
        changed["collections"].append(["kept", "json; copy 00000000000000ab"])
        Theirs.data["storebench-marker"]["marker"] = json.dumps(changed).encode()
        Theirs.data["kept"] = {"k": b"{}"}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", storebench.StorebenchWarning)
        bench()
        # As a process leaves it that was killed while it emptied.
        Theirs.data["storebench-marker"]["marker"] = Theirs.data["storebench-marker"]["marker"].replace(b"; study", b"; removing")
        pathlib.Path("docs.jsonl").write_text('{"_id": "a"}\n')
        with pytest.raises(storebench.StorebenchError, match="is removing its collections, or was killed"):
            storebench.copy("docs.jsonl", Theirs, progress=False)
        bench()
        assert marks() == {"docs": "json; study"}
        Theirs.then = staticmethod(other)
        try:
            bench()
        except storebench.BadInput as error:
            assert "`kept` with data that `storebench copy` wrote" in str(error)
    assert marks() == {"kept": "json; copy 00000000000000ab"} and Theirs.data["kept"] == {"k": b"{}"}


def test_what_is_there_already_is_not_touched() -> None:
    class Theirs(Store):
        pass

    Theirs.data["users"] = {"u": b"{}"}
    with pytest.raises(storebench.BadInput, match="collection `users`, which Storebench did not"):
        storebench.bench(Theirs, docs=10, progress=False)
    with pytest.raises(storebench.BadInput, match="collection `users`, which Storebench did not"):
        storebench.conform(Theirs, progress=False)
    pathlib.Path("users.jsonl").write_text('{"_id": "u", "n": 1}\n')
    with pytest.raises(storebench.BadInput, match="`users`, which Storebench did not make"):
        storebench.copy("users.jsonl", Theirs, progress=False)
    assert Theirs.data == {"users": {"u": b"{}"}}
    # What a copy wrote stays, too.
    storebench.copy("users.jsonl", Theirs, to_collection="copied", progress=False)
    with pytest.raises(storebench.BadInput):
        storebench.bench(Theirs, docs=10, progress=False)
    assert Theirs.data["copied"] == {"u": b'{"n": 1}'}


def test_a_class_that_is_no_store_is_refused() -> None:
    class Nothing:
        def read(self, collection: str, key: str) -> bytes | None:
            return None

    class Mixed(Store):
        async def scan(self, *_: Any) -> Any:  # type: ignore[override]
            return []

    class Odd(Store):
        durability = "eternal"

    cases: list[tuple[Any, str]] = [
        (Nothing, "has no method upsert, collections, drop"),
        (Mixed, "must be `async def`"),
        (Odd, "unknown durability `eternal`"),
        (print, "a store is a URL or a class"),
    ]
    for store, why in cases:
        with pytest.raises(storebench.BadInput, match=why):
            storebench.bench(store, docs=10, progress=False)
