"""The data source: reading and writing with data frames."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any, cast

import pytest
import storebench
import storebench.spark
from conftest import PASSWORD, Server, books
from test_copy import stored, without_key


def reads(spark: Any, url: str, **options: str) -> Any:
    return spark.read.format("storebench").options(url=url, **options)


def writes(frame: Any, url: str, **options: str) -> Any:
    return frame.write.format("storebench").options(url=url, **options).mode("append")


@pytest.fixture(scope="module")
def loaded(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """A collection, and what it holds."""
    folder, name = tmp_path_factory.mktemp("loaded"), f"loaded{random.randrange(10**9)}"
    written = books(folder / "books.jsonl", 5_000)
    out = str(folder / "out")
    storebench.copy(str(folder / "books.jsonl"), postgres.url, to_collection=name, out=out, progress=False)
    return name, written


def test_columns_are_inferred_and_no_field_vanishes(spark: Any, postgres: Server, loaded: Any) -> None:
    name, written = loaded
    frame = reads(spark, postgres.url, collection=name, infer="50").load()
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert types == {
        "_id": "string",
        "title": "string",
        "year": "bigint",
        "price": "double",
        "tags": "array<string>",
        "by": "struct<name:string>",
        **({"rare": "boolean"} if "rare" in types else {}),
        "_more": "string",
    }
    assert frame.rdd.getNumPartitions() > 1
    rows = {row["_id"]: row.asDict(recursive=True) for row in frame.collect()}
    assert len(rows) == len(written)
    for book in written:
        row = rows[book["_id"]]
        more = json.loads(row.pop("_more") or "{}")
        found = {name: value for name, value in {**row, **more}.items() if value is not None}
        assert found == book


def test_whole_documents_are_a_column(spark: Any, postgres: Server, loaded: Any) -> None:
    name, written = loaded
    frame = reads(spark, postgres.url, collection=name, documents="true").load()
    found = {row["_id"]: json.loads(row["document"]) for row in frame.collect()}
    assert found == without_key(written)
    # Fields of the text, without a schema.
    assert frame.where("get_json_object(document, '$.rare') = 'true'").count() == 50


def test_a_schema_selects_and_converts(spark: Any, here: pathlib.Path) -> None:
    (here / "a.jsonl").write_text('{"_id": "a", "n": 1, "at": "2026-11-26T10:00:00Z", "d": "2026-11-26", "x": 2.5, "other": 1}\n')
    schema = "n int, at timestamp, d date, x decimal(10,2)"
    row = reads(spark, str(here / "a.jsonl")).schema(schema).load().selectExpr("n", "cast(unix_seconds(at) as string) at", "d", "x").collect()
    assert [str(value) for value in row[0]] == ["1", "1795687200", "2026-11-26", "2.50"]
    with pytest.raises(Exception, match="unsupported type map<string,int>"):
        reads(spark, str(here / "a.jsonl")).schema("n map<string,int>").load().collect()
    for schema, why in [
        ("at int", "document `a`"),
        ("_id string, x decimal(10,0)", "document `a` does not fit the schema"),
        ("_id string, d timestamp_ntz, n byte, at date", "document `a` does not fit the schema"),
        ("x float", "unsupported type float"),
    ]:
        with pytest.raises(Exception, match=why):
            reads(spark, str(here / "a.jsonl")).schema(schema).load().collect()


def test_rows_are_written_by_key_and_repeating_changes_nothing(spark: Any, redis: Server, loaded: Any, postgres: Server) -> None:
    name, written = loaded
    target = f"written{random.randrange(10**9)}"
    frame = reads(spark, postgres.url, collection=name).load()
    for _ in range(2):
        writes(frame, redis.url, collection=target).save()
        assert stored(redis.url, target) == without_key(written)
    whole = reads(spark, postgres.url, collection=name, documents="true").load()
    writes(whole.repartition(3), redis.url, collection=f"{target}b", documents="true").save()
    assert stored(redis.url, f"{target}b") == without_key(written)


def test_keys_come_from_any_column(spark: Any, redis: Server) -> None:
    target = f"keyed{random.randrange(10**9)}"
    frame = spark.createDataFrame([(1, "a", 0.5), (2, "b", None)], "isbn int, title string, price float")
    writes(frame, redis.url, collection=target, key="{isbn}").save()
    assert stored(redis.url, target) == {
        "1": {"isbn": 1, "title": "a", "price": 0.5},
        "2": {"isbn": 2, "title": "b"},
    }


def test_a_changed_column_changes_the_document(spark: Any, redis: Server, here: pathlib.Path) -> None:
    (here / "a.jsonl").write_text('{"_id": "a", "x": 18.0, "o": {"b": 1}}\n{"_id": "b", "x": 18.5, "o": {"b": 1, "c": 2}}\n')
    target = f"changed{random.randrange(10**9)}"
    frame = reads(spark, str(here / "a.jsonl")).load()
    assert frame.columns[-1] == "_more", "documents that are written later may have other fields"
    writes(frame.withColumn("x", frame.x * 2), redis.url, collection=target).save()
    assert stored(redis.url, target) == {"a": {"x": 36, "o": {"b": 1}}, "b": {"x": 37, "o": {"b": 1, "c": 2}}}


def test_rejected_rows_fail_the_job_and_are_kept(spark: Any, redis: Server, here: pathlib.Path) -> None:
    frame = spark.createDataFrame([("a", 1), (None, 2)], "_id string, n int")
    target, out = f"bad{random.randrange(10**9)}", str(here / "out")
    with pytest.raises(Exception, match="1 rows were rejected, the first because"):
        writes(frame, redis.url, collection=target, out=out).save()
    (kept,) = (here / "out").glob("*/rejects.jsonl")
    assert json.loads(kept.read_text())["record"] == {"n": 2}
    writes(frame, redis.url, collection=target, out=out, max_errors="1").save()
    assert stored(redis.url, target) == {"a": {"n": 1}}


def test_times_are_cut_to_microseconds_and_int96_is_utc(spark: Any, here: pathlib.Path) -> None:
    (here / "a.jsonl").write_text(
        '{"_id": "a", "at": "2026-11-26T10:00:00.123456789Z", "o": {"at": "2026-11-26T10:00:00.1234567+01:00"}, "l": ["2026-11-26T10:00:00Z"]}\n'
        '{"_id": "b", "o": null, "l": null}\n'
    )
    schema = "_id string, at timestamp, o struct<at: timestamp>, l array<timestamp>"
    micros = ["_id", "unix_micros(at) at", "unix_micros(o.at) o", "unix_micros(l[0]) l"]
    rows = reads(spark, str(here / "a.jsonl")).schema(schema).load().selectExpr(*micros).orderBy("_id").collect()
    second = 1_795_687_200_000_000
    assert [tuple(row) for row in rows] == [("a", second + 123_456, second - 3_600_000_000 + 123_456, second), ("b", None, None, None)]
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.sql("select 'a' _id, timestamp_micros(1795687200123456) at").write.parquet(str(here / "int96"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    (row,) = reads(spark, f"{here}/int96/").schema("at timestamp").load().selectExpr("unix_micros(at) at").collect()
    assert row["at"] == second + 123_456


def test_variants_are_written_as_their_json(spark: Any, redis: Server) -> None:
    target = f"variant{random.randrange(10**9)}"
    frame = spark.sql("""select 'a' _id, parse_json('{"n": [1, null, 2.5]}') v union all select 'b', null""")
    writes(frame, redis.url, collection=target).save()
    assert stored(redis.url, target) == {"a": {"v": {"n": [1, None, 2.5]}}, "b": {}}
    with pytest.raises(Exception, match="column `o`: a variant must be a column"):
        writes(frame.selectExpr("_id", "struct(v) o"), redis.url, collection=target).save()


def test_a_rejected_row_has_its_key_and_value(spark: Any, redis: Server, here: pathlib.Path) -> None:
    frame = spark.createDataFrame([("a", float("nan")), ("b", 1.5)], "_id string, x double")
    target, out = f"nan{random.randrange(10**9)}", str(here / "out")
    writes(frame, redis.url, collection=target, out=out, max_errors="1").save()
    (kept,) = (here / "out").glob("*/rejects.jsonl")
    reject = json.loads(kept.read_text())
    assert (reject["key"], reject["record"]) == ("a", '{"_id":"a","x":NaN}')
    assert stored(redis.url, target) == {"b": {"x": 1.5}}


def test_bad_options_are_named(spark: Any, redis: Server, here: pathlib.Path) -> None:
    frame = spark.createDataFrame([("a", 1)], "_id string, n int")
    with pytest.raises(Exception, match="BadInput: max_errors: expected a whole number from 0, not 'many'"):
        writes(frame, redis.url, collection="any", max_errors="many").save()
    with pytest.raises(Exception, match="BadInput: documents: expected true or false, not 'maybe'"):
        reads(spark, redis.url, collection="any", documents="maybe").load()
    for name in ("books", "films"):
        books(here / f"{name}.jsonl", 5)
        storebench.copy(f"{name}.jsonl", f"{redis.url}/3", to_collection=name, progress=False)
    with pytest.raises(Exception, match=r"BadInput: .* name the collection to read with collection=NAME"):
        reads(spark, f"{redis.url}/3").load()
    refused: list[tuple[Any, str]] = [
        (lambda: storebench.spark.run(spark, "first-look", 0), "^generators: expected a whole number from 1, not 0"),
        (lambda: storebench.spark.run(spark, "first-look", 2, **cast(Any, {"shared": 5})), "^shared: expected a path, not 5"),
        (lambda: storebench.spark.run(cast(Any, None), "first-look", 2), "^spark: expected a SparkSession"),
        (lambda: storebench.spark.run(spark, cast(Any, 5), 2), "^study: expected a path"),
        (lambda: storebench.spark.copy(spark, cast(Any, 5), redis.url), "^source: expected the URL of a store, or a path"),
        (lambda: storebench.spark.copy(spark, "books.jsonl", redis.url, **cast(Any, {"tries": object()})), "^tries: expected text"),
    ]
    for call, says in refused:
        with pytest.raises(storebench.BadInput, match=says):
            call()


def test_what_would_lose_data_is_refused(spark: Any, redis: Server) -> None:
    frame = spark.createDataFrame([("a", 1)], "_id string, n int")
    with pytest.raises(Exception, match="would remove documents"):
        writes(frame, redis.url, collection="any").mode("overwrite").save()
    with pytest.raises(Exception, match="must not be applied twice"):
        writes(frame, redis.url, collection="any", op="counter", value="n").save()
    for options, why in [
        ({"op-field": "op"}, "`op_field` must not be applied twice"),
        ({"key": "{uuid}"}, "each task counts its own rows"),
        ({"rejects": "r.jsonl"}, "unknown option `rejects`"),
        ({"rate_docs": "5"}, "unknown option `rate_docs`"),
        ({"workers": "5"}, "unknown option `workers`"),
    ]:
        with pytest.raises(Exception, match=why):
            writes(frame, redis.url, collection="any", **options).save()
    for url, why in [("/tmp/any/", "is not the URL of a store"), ("sqlite:/tmp/any.db", "embedded"), ("memory:", "embedded")]:
        with pytest.raises(Exception, match=why):
            writes(frame, url, collection="any").save()
    with pytest.raises(Exception, match="name the collection"):
        writes(frame, redis.url).save()
    with pytest.raises(Exception, match="unknown option `no_such`"):
        writes(frame, redis.url, collection="any", no_such="1").save()


def test_passwords_are_in_no_plan_and_no_log(spark: Any, postgres: Server, redis: Server, loaded: Any, capfd: Any) -> None:
    name, _ = loaded
    frame = reads(spark, postgres.url, collection=name).load()
    frame.createOrReplaceTempView("books")
    frame.explain(extended=True)
    spark.sql("select count(*) from books").explain(mode="formatted")
    writes(frame, redis.url, collection=f"secret{random.randrange(10**9)}").save()
    for failing in (reads(spark, postgres.url, collection="nosuch").load, writes(frame, redis.url, collection="any", op="touch").save):
        with pytest.raises(Exception) as caught:
            failing()
        assert PASSWORD not in str(caught.value)
    out, err = capfd.readouterr()
    assert PASSWORD not in out + err
    logs = [path for path in spark.events.rglob("*") if path.is_file()]
    texts = [path.read_text(errors="replace") for path in logs]
    assert any("storebench" in text for text in texts)
    assert not any(PASSWORD in text for text in texts)
