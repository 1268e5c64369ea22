"""The Python blocks of ``docs/spark.md`` run."""

from __future__ import annotations

import json
import pathlib
import random
import sys
from typing import Any

import pytest
import storebench
from conftest import Server, all_slots, books
from test_copy import stored, without_key
from test_run import STUDY

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests"))
from snippets import run  # type: ignore[import-not-found]  # noqa: E402


@pytest.mark.filterwarnings("ignore::storebench.StorebenchWarning")
def test_the_blocks_of_the_page(spark: Any, redis: Server, postgres: Server, here: pathlib.Path) -> None:
    all_slots(spark)
    name = f"page{random.randrange(10**9)}"
    written = books(here / "books.jsonl", 500)
    run("docs/spark.md", 0, {"/lake/books/*.parquet": "books.jsonl", "postgres://me@db/shop": postgres.url, '"books"': repr(name)})
    assert len(stored(postgres.url, name)) == 500
    here_too = {"mongodb://db/shop": postgres.url, '"books"': repr(name), "couchbase://db/shop": redis.url}
    run("docs/spark.md", 1, here_too)
    later = {key: book for key, book in without_key(written).items() if book["year"] > 2000}
    assert stored(redis.url, "new-books") == later
    (here / "study.toml").write_text(storebench._native.toml_of(json.dumps(STUDY)))
    names = run("docs/spark.md", 2, {"generators=16": "generators=2", "redis://db/": f"{redis.url}/4"})
    assert {row["part"] for row in names["run"].generators().to_pylist()} == {1, 2}
