"""Every Python block of the documentation runs. Those of ``docs/spark.md`` run in ``spark_tests``."""

from __future__ import annotations

import json
import pathlib
import sys
import types
from typing import Any

import pytest
import storebench
from snippets import PAGES, run, snippets

pytestmark = pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")


def test_every_block_has_a_test() -> None:
    found = {page: len(snippets(page)) for page in PAGES if snippets(page)}
    assert found == {
        "README.md": 1,
        "crates/python/README.md": 1,
        "docs/python-stores.md": 1,
        "docs/results-format.md": 1,
        "docs/spark.md": 3,
    }


@pytest.mark.parametrize("page", ["README.md", "crates/python/README.md"])
def test_a_first_run(page: str) -> None:
    names = run(page, 0, {"5s": "300ms"})
    assert names["run"].result["trials"]


def test_tables_are_read(short: storebench.Run, here: pathlib.Path) -> None:
    assert short.folder is not None
    (here / "intervals.jsonl.gz").write_bytes((short.folder / "intervals.jsonl.gz").read_bytes())
    run("docs/results-format.md", 0, {})


class Redis:
    """A client of Redis without a server."""

    data: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.data.get(key)

    def set(self, key: str, value: bytes, nx: bool = False) -> bool | None:
        if nx and key in self.data:
            return None
        self.data[key] = value
        return True

    def scan_iter(self, pattern: str) -> list[bytes]:
        begins = pattern.removesuffix("*").removesuffix("*:")
        return [key.encode() for key in list(self.data) if key.startswith(begins)]

    def delete(self, key: bytes) -> None:
        del self.data[key.decode()]

    def close(self) -> None:
        pass


def test_a_store_in_python(here: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = types.ModuleType("redis")
    client.Redis, client.ConnectionError = Redis, ConnectionError
    monkeypatch.setitem(sys.modules, "redis", client)
    (here / "books.jsonl").write_text("".join(json.dumps({"_id": f"b{n}"}) + "\n" for n in range(20)))
    study = 'title = "x"\n[collections.books]\ncount = 100\nsize = "100B"\n[[phases]]\nname = "load"\nload = ["books"]\n'
    (here / "study.toml").write_text(study)
    short = {"docs=10_000, rate=500": 'docs=100, rate=500, duration="300ms", warm_up="0s"', "redis://localhost/1": "memory:"}
    run("docs/python-stores.md", 0, short)
    assert "books:b7" in Redis.data
