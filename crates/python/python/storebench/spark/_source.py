"""The data source ``storebench``: ``spark.read.format("storebench")`` and ``df.write.format("storebench")``."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from .. import _call, _documents, _errors, _native
from . import _job

if TYPE_CHECKING:
    import pyarrow

KEY = "_id"
"""The column of the key, unless the option ``key_field`` names another one."""
DOCUMENT = "document"
"""With the option ``documents``, the column with the whole document as JSON."""
MORE = "_more"
"""The column with fields that have no column of their own, as JSON."""
MARK = "storebench"
"""Metadata of an Arrow schema: which columns are not fields of the document."""
OWN = frozenset({"url", "collection", "documents", "allow_repeats", "out", "max_errors"})
"""Options that the data source handles itself and does not pass to ``copy``."""
WRITES = frozenset(
    "into_existing to_key to_body op durability key filter map fields without rename value op_field merge merge_absent"
    " own_members expiry expiry_field batch batch_bytes in_flight timeout tries retry_cap retry_total overflow".split()
)
"""The options of ``copy`` that concern the records and the target."""
ONCE = {"append", "prepend", "counter"}
"""Operations that must not be applied twice."""
READ_TOO = frozenset({"url", "collection", "documents"})
"""Options for reading that are not those of ``copy``."""
REJECTS = 1_000
"""The most rejects that one task brings to the driver. All are counted."""


class Options:
    """The options of a data source. They arrive as text."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.all = {name.lower().replace("-", "_").rstrip("_"): value for name, value in options.items()}
        self.all.pop("path", None)
        if "url" not in self.all:
            raise _errors.of(2, 'name the store or the files: .option("url", "postgres://…")')
        self.url = _job.absolute("url", self.all["url"])
        self.collection = self.all.get("collection")

    def flag(self, name: str) -> bool:
        """Whether a flag is given."""
        value = self.all.get(name, "false")
        if value.lower() not in {"true", "false"}:
            raise _errors.not_expected(name, "true or false", value)
        return value.lower() == "true"

    def number(self, name: str) -> int:
        """A count; 0 if it is not given."""
        value = self.all.get(name, "0")
        if not re.fullmatch("[0-9]{1,15}", value):
            raise _errors.not_expected(name, "a whole number from 0", value)
        return int(value)

    def words(self, collection: str) -> list[str]:
        """The options of ``copy``. ``collection`` is the option for the collection's name."""
        words: dict[str, _call.Option] = {collection: self.collection}
        for name, value in self.all.items():
            if name not in OWN:
                words[name] = {"true": True, "false": False}.get(value.lower(), value)
        return _call.arguments(words)


class DefaultSource(DataSource):
    """Documents of stores and files as rows of Spark.

    Options are those of ``storebench copy`` with underscores, and these:

    ``url``
        The URL of a store; for reading also a file or a file pattern that every worker can read.
    ``collection``
        The collection. For reading, the default is the only one.
    ``documents``
        ``true`` for two columns: the key ``_id``, and the whole document as JSON in ``document``.
    ``workers``
        For reading: controls the number of partitions. A store gets about four for each.
    ``max_errors``
        For writing: the number of rejected rows with which the job still succeeds; the default is 0.
    ``out``
        For writing: the folder on the driver for the report and the rejected rows; the default is ``storebench-runs``.
    ``allow_repeats``
        For writing: ``true`` to allow operations that change the data again if Spark repeats a task.

    Without a schema, columns are inferred from the first 10,000 documents; see the option ``infer``. Fields that have no
    column or do not fit its type are in the column ``_more`` as JSON, so no field is lost.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.given = Options(options)

    @classmethod
    def name(cls) -> str:
        return "storebench"

    def schema(self) -> types.StructType:
        if self.given.flag("documents"):
            return document_schema(self.given)
        _documents.check_options(self.given.all, (_documents.READS - {"from_collection", "schema"}) | READ_TOO)
        reader = opened(self.given)
        with _documents.errors():
            text, more = reader.columns()
        columns = json.loads(text)
        # Documents that are written later may have other fields.
        columns["overflow"] = columns["overflow"] or self.given.all.get("overflow", MORE)
        seen = "a sample" if more else "all documents"
        note = f"fields outside them are in `{columns['overflow']}`"
        print(f"storebench: {len(columns['list'])} columns inferred from {seen}; {note}", file=sys.stderr)
        return of_columns(columns)

    def reader(self, schema: types.StructType) -> Reader:
        _documents.check_options(self.given.all, (_documents.READS - {"from_collection", "schema"}) | READ_TOO)
        return Reader(self.given, schema)

    def writer(self, schema: types.StructType, overwrite: bool) -> Writer:
        _documents.check_options(self.given.all, WRITES | OWN)
        if overwrite:
            raise _errors.of(
                2, 'mode("overwrite") would remove documents; use mode("append"), which replaces those with the same key'
            )
        return Writer(self.given, schema)


def opened(options: Options) -> Any:
    """Opens the source of a read."""
    with _documents.errors():
        return _native.Reader(options.url, options.words("from_collection"))


def document_schema(options: Options) -> types.StructType:
    """Key and document."""
    text = types.StringType()
    key = options.all.get("key_field", KEY)
    return types.StructType([types.StructField(key, text, False), types.StructField(DOCUMENT, text, False)])


# The Spark type of each inferred column. Other columns become strings.
SIMPLE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "integer": types.LongType(),
    "number": types.DoubleType(),
    "text": types.StringType(),
    "json": types.StringType(),
}


def of_columns(columns: Mapping[str, Any]) -> types.StructType:
    """Converts inferred columns to a schema."""
    schema = of_members(columns["list"])
    return schema if columns["overflow"] is None else schema.add(columns["overflow"], types.StringType(), True)


def of_members(members: Sequence[tuple[str, Any]]) -> types.StructType:
    return types.StructType([types.StructField(name, of_kind(kind), True) for name, kind in members])


def of_kind(kind: Any) -> types.DataType:
    if isinstance(kind, str):
        return SIMPLE.get(kind, types.StringType())
    if "list" in kind:
        return types.ArrayType(of_kind(kind["list"]), True)
    return of_members(kind["object"])


def to_columns(schema: types.StructType, more: str) -> dict[str, Any]:
    """Converts a schema to columns."""
    fields = [field for field in schema.fields if field.name != more]
    return {
        "list": [(field.name, to_kind(field.name, field.dataType)) for field in fields],
        "overflow": more if len(fields) < len(schema.fields) else None,
    }


def to_kind(name: str, kind: types.DataType) -> Any:
    match kind:
        case types.BooleanType():
            return "boolean"
        case types.IntegralType():
            return "integer"
        case types.DoubleType():
            return "number"
        case types.DecimalType():
            # Its digits as text: a double would round them.
            return "json"
        case types.StringType() | types.DateType() | types.TimestampType() | types.TimestampNTZType():
            return "text"
        case types.ArrayType():
            return {"list": to_kind(name, kind.elementType)}
        case types.StructType():
            return {"object": [(field.name, to_kind(f"{name}.{field.name}", field.dataType)) for field in kind.fields]}
    raise _errors.of(
        2,
        f"column `{name}`: unsupported type {kind.simpleString()}; expected string, boolean, int, double, decimal, date,"
        " timestamp, array or struct",
    )


@dataclasses.dataclass
class Split(InputPartition):
    """A part of the source."""

    text: str
    fingerprint: str
    collection: str | None

    def __init__(self, text: str, fingerprint: str, collection: str | None) -> None:
        super().__init__(text)
        self.text = text
        self.fingerprint = fingerprint
        self.collection = collection


class Reader(DataSourceReader):
    """Reads the parts of a source, each in one task."""

    def __init__(self, options: Options, schema: types.StructType) -> None:
        self.options = options
        self.types = schema

    def partitions(self) -> list[InputPartition]:
        if any(isinstance(kind, types.TimestampType) for kind in kinds(self.types)):
            print("storebench: times in Spark have microseconds; further digits are cut off", file=sys.stderr)
        reader = opened(self.options)
        with _documents.errors():
            return [Split(text, reader.fingerprint(), reader.collection()) for text in reader.splits()]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        if not isinstance(partition, Split):
            # Spark's own, for a source without parts.
            return
        options = self.options
        # The one that the driver found, if it is the default.
        options.collection = partition.collection
        reader = opened(options)
        if reader.fingerprint() != partition.fingerprint:
            raise _errors.of(
                2,
                "the source differs between this worker and the driver; give all workers the same files, and do not"
                " change them",
            )
        wanted = to_arrow_schema(self.types, timezone="UTC")
        key, document = options.all.get("key_field", KEY), DOCUMENT
        columns = None
        if not options.flag("documents"):
            columns = json.dumps(to_columns(self.types, options.all.get("overflow", MORE)))
        with _documents.errors():
            stream = reader.stream([partition.text], columns, (key, document), False)
        batches = pyarrow.RecordBatchReader.from_stream(stream)
        while True:
            try:
                batch = batches.read_next_batch()
            except StopIteration:
                return
            except pyarrow.ArrowException as error:
                raise _errors.of(1, str(error).removeprefix("External error: ")) from None
            parts = [in_micros(batch[field.name], field.type) for field in wanted]
            yield converted(pyarrow.RecordBatch.from_arrays(parts, wanted.names), wanted, key)


def kinds(kind: types.DataType) -> Iterator[types.DataType]:
    """A type, and those within it."""
    yield kind
    for field in kind.fields if isinstance(kind, types.StructType) else ():
        yield from kinds(field.dataType)
    if isinstance(kind, types.ArrayType):
        yield from kinds(kind.elementType)


def in_micros(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Cuts texts that become times to the digits that Spark has."""
    import pyarrow
    import pyarrow.compute

    if pyarrow.types.is_timestamp(kind) and pyarrow.types.is_string(column.type):
        return pyarrow.compute.replace_substring_regex(column, r"(\.\d{6})\d+", r"\1")
    if pyarrow.types.is_struct(kind):
        fields = [in_micros(part, kind.field(at).type) for at, part in enumerate(column.flatten())]
        names = [field.name for field in column.type]
        return pyarrow.StructArray.from_arrays(fields, names, mask=column.is_null())
    if pyarrow.types.is_list(kind):
        items = in_micros(column.values, kind.value_type)
        return pyarrow.ListArray.from_arrays(column.offsets, items, mask=column.is_null())
    return column


def converted(batch: pyarrow.RecordBatch, wanted: pyarrow.Schema, key: str) -> pyarrow.RecordBatch:
    """Converts columns to the types of the schema. An error names the document, if the schema has the key."""
    import pyarrow

    try:
        return batch.cast(wanted)
    except pyarrow.ArrowException:
        for row in range(batch.num_rows):
            one = batch.slice(row, 1)
            try:
                one.cast(wanted)
            except pyarrow.ArrowException as error:
                name = f"document `{one[key][0].as_py()}`" if key in batch.schema.names else f"document {one.to_pylist()[0]}"
                raise _errors.of(1, f"{name} does not fit the schema: {error}") from None
        raise


@dataclasses.dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    report: dict[str, Any]
    rejects: list[str]


class Writer(DataSourceArrowWriter):
    """Writes rows by key, each task through a copy of its own."""

    def __init__(self, options: Options, schema: types.StructType) -> None:
        self.options = options
        self.types = schema
        self.most = options.number("max_errors")
        # On the driver, where the job began.
        self.out = os.path.abspath(options.all.get("out", "storebench-runs"))
        op = options.all.get("op", "upsert")
        once = op in ONCE or "op_field" in options.all or "merge" in options.all
        if once and not options.flag("allow_repeats"):
            raise _errors.of(
                2,
                f"a task may run twice, and `{'op_field' if 'op_field' in options.all else op}` must not be applied twice;"
                ' use an operation such as upsert or insert, or accept repeated changes with'
                ' .option("allow_repeats", "true")',
            )
        if options.collection is None:
            raise _errors.of(2, 'name the collection to write: .option("collection", "books")')
        if re.search(r"\{(uuid|seq)\}", options.all.get("key", "")):
            raise _errors.of(2, "each task counts its own rows, so {uuid} and {seq} would repeat; make the key of columns")
        for field in schema.fields:
            if not isinstance(field.dataType, types.VariantType) and types.VariantType() in kinds(field.dataType):
                raise _errors.of(2, f"column `{field.name}`: a variant must be a column; convert it with to_json")
        with _documents.errors():
            _native.check_server(options.url)
        pathlib.Path(self.out).mkdir(parents=True, exist_ok=True)
        # Creates the collection, or finds out that it cannot be written, before any task starts.
        self.copied(iter(()))

    def copied(self, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        """Writes batches."""
        import pyarrow

        with tempfile.TemporaryDirectory(prefix="storebench-write-") as folder:
            words = ["copy", "-", self.options.url, "--from-format=arrow", "--json", f"--out={folder}"]
            words += ["--workers=1", f"--max-errors={2**53}", *self.options.words("to_collection")]
            readable, writable = os.pipe()
            ended: list[_call.Done] = []

            def run() -> None:
                try:
                    ended.append(_call.call(words, False, input=f"/proc/self/fd/{readable}"))
                finally:
                    # If the copy has failed, nobody reads any more.
                    os.close(readable)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                with os.fdopen(writable, "wb") as pipe:
                    self.send(batches, pipe)
            except BrokenPipeError:
                # The copy says why.
                pass
            finally:
                thread.join()
            done = ended[0]
            report: dict[str, Any] = json.loads(done.printed(keeps=(0,)))
            rejects = [line for path in pathlib.Path(folder).glob("*/rejects.jsonl") for line in lines(path)]
            return Written(report, rejects)

    def send(self, batches: Iterator[pyarrow.RecordBatch], pipe: Any) -> None:
        """Writes batches to a pipe as an Arrow stream."""
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        variants = [at for at, field in enumerate(self.types.fields) if isinstance(field.dataType, types.VariantType)]
        schema = to_arrow_schema(self.types, timezone="UTC")
        for at in variants:
            schema = schema.set(at, pyarrow.field(schema.names[at], pyarrow.string()))
        # As in files of `copy`: these columns hold JSON, whose members are fields of the document.
        whole = DOCUMENT if self.options.flag("documents") else self.options.all.get("overflow", MORE)
        mark: dict[str, Any] = {"overflow": whole} if whole in schema.names else {}
        if variants:
            mark["json"] = [schema.names[at] for at in variants]
        if mark:
            schema = schema.with_metadata({MARK: json.dumps(mark)})
        with pyarrow.ipc.new_stream(pipe, schema) as stream:
            for batch in batches:
                for at in variants:
                    batch = batch.set_column(at, schema.field(at), json_of(batch[at]))
                stream.write_batch(batch.replace_schema_metadata(schema.metadata).cast(schema))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        return self.copied(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        counts: dict[str, int] = {}
        for message in written:
            for name, count in message.report["counts"].items():
                counts[name] = counts.get(name, 0) + count
        folder = pathlib.Path(self.out) / f"spark-write-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
        folder.mkdir(parents=True)
        (folder / "write.json").write_text(json.dumps({"tasks": len(written), "counts": counts}, indent=2) + "\n")
        rejects = [line for message in written for line in message.rejects]
        if rejects:
            (folder / "rejects.jsonl").write_text("".join(rejects))
        said = ", ".join(f"{count} {name}" for name, count in counts.items() if count and name != "bytes")
        print(f"storebench: {said or 'no rows'} in {len(written)} tasks; {folder}", file=sys.stderr)
        rejected = counts.get("rejected", 0)
        if rejected > self.most:
            first = json.loads(rejects[0]) if rejects else {"why": "unknown", "key": None}
            raise _errors.of(
                1,
                f"{rejected} rows were rejected, the first because: {first['why']} (key {first['key']});"
                f" {counts.get('written', 0)} rows were written. See {folder}; to tolerate bad rows, raise max_errors",
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        count = sum(message.report["counts"]["written"] for message in messages if isinstance(message, Written))
        print(f"storebench: the job failed; at least {count} rows were already written", file=sys.stderr)


def json_of(variants: pyarrow.Array) -> pyarrow.Array:
    """Converts a column of variants to JSON."""
    import pyarrow

    rows = (row and types.VariantVal(row["value"], row["metadata"]).toJson() for row in variants.to_pylist())
    return pyarrow.array(rows, pyarrow.string())


def lines(path: pathlib.Path) -> Iterator[str]:
    """The first rejects of a file."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number == REJECTS:
                return
            yield line
