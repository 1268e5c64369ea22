"""Documents as streams: generated, or read from stores and files."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import pathlib
from collections.abc import Generator, Iterable, Mapping

from . import _call, _errors, _native
from ._call import Option
from ._native import Stream
from ._stores import OneStore, url_of
from ._studies import Study, overrides_of, text_of


def documents(
    study: Study,
    collection: str,
    start: int = 0,
    stop: int | None = None,
    *,
    version: int = 0,
    scale: float = 1.0,
    set: Iterable[str] = (),
) -> Stream:
    """Generates the same documents that a run of the study writes.

    Args:
        study: A path, the name of a built-in study, TOML text, or a dictionary.
        collection: The name of the collection.
        start: The index of the first document, from 0.
        stop: The index after the last document. None for all documents.
        version: 0 for documents as loaded; higher versions are the documents that a run's writes produce.
        scale: Multiplies the number of documents.
        set: Overrides such as ``"collections.books.size=2KB"``.

    Returns:
        A stream that polars, pandas, DuckDB and pyarrow can read, with the columns ``index``, ``key`` and ``document``.
        You can also iterate over it to get dictionaries. You can read it once. It generates documents as you read them.

    Raises:
        BadInput: The study is invalid, or the collection or document range does not exist.
    """
    text, overrides = text_of(study), overrides_of(set)
    start, version = _errors.whole("start", start), _errors.whole("version", version)
    stop = None if stop is None else _errors.whole("stop", stop)
    if isinstance(scale, bool) or not isinstance(scale, numbers.Real) or not 0 < scale < math.inf:
        raise _errors.not_expected("scale", "a number above 0", scale)
    base, file = os.curdir, "study.toml"
    if text is None:
        assert not isinstance(study, Mapping)
        path = pathlib.Path(os.fspath(study))
        if path.is_file():
            text, base, file = path.read_text(encoding="utf-8"), str(path.parent), str(path)
        else:
            text = _call.call(["studies", str(path), "--file"], False).printed()
    collection = _errors.text("collection", collection)
    return _native.documents(text, file, base, overrides, float(scale), collection, start, stop, version)


def read(
    source: OneStore,
    collection: str | None = None,
    *,
    columns: bool = False,
    binary: bool = False,
    **options: Option,
) -> Stream:
    """Reads the documents of a store or of files, in parallel and in no particular order.

    Args:
        source: The URL of a store, a file, a file pattern, or a class (``docs/python-stores.md``).
        collection: The collection; optional if there is only one. For your own collection, its name in the store.
        columns: Whether each field becomes a typed column. The types are inferred from the first 10,000 documents.
            Fields that have no column or do not fit its type are in the column ``_more``, as JSON.
        binary: Whether documents are bytes instead of text.
        **options: The options of ``storebench copy --help`` that concern the source and its records: ``workers=2``,
            ``from_key="isbn"``, ``query="select …"``, ``filter=".year > 2000"``, ``infer="all"``, …

    Returns:
        A stream that polars, pandas, DuckDB and pyarrow can read, with the columns ``key`` and ``document`` (JSON), or
        with ``_id`` and a column for each field. You can also iterate over it to get dictionaries. You can read it once.

    Raises:
        BadInput: An option is invalid, or the collection or file does not exist.
        Unreachable: The store does not answer.

    Reading raises the same exceptions, and DataLost for a record that cannot be read.
    """
    check_options((name.rstrip("_") for name in options), READS - {"from_collection"})
    with errors():
        words = _call.arguments({"from_collection": collection, **options})
        reader = _native.Reader(url_of(source), words)
        inferred = reader.columns()[0] if columns else None
        return reader.stream(None, inferred, ("key", "document"), bool(binary))


READS = frozenset(
    "from_collection from_key from_body query view keys from_format types delimiter drop_expiry drop_attachments key filter"
    " map fields without rename value infer schema overflow no_overflow key_field workers timeout tries retry_cap"
    " retry_total".split()
)
"""The options of ``copy`` that concern the source and its records."""


def check_options(options: Iterable[str], known: Iterable[str]) -> None:
    """Refuses options that would be ignored."""
    known = sorted(known)
    for name in options:
        if name not in known:
            raise _errors.of(2, f"unknown option `{name}`; expected one of {', '.join(known)}")


@contextlib.contextmanager
def errors() -> Generator[None]:
    """Calls the collection as functions that read do."""
    try:
        yield
    except _errors.StorebenchError as error:
        raise _errors.of(error.code, str(error).replace("from_collection", "collection")) from None
