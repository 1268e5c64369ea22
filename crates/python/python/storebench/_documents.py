"""Generates the documents of a study."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping

from . import _call, _errors, _native
from ._native import Stream
from ._studies import Study, text_of


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
    overrides = [set] if isinstance(set, str) else list(set)
    text = text_of(study)
    base, file = os.curdir, "study.toml"
    if text is None:
        assert not isinstance(study, Mapping)
        path = pathlib.Path(os.fspath(study))
        if path.is_file():
            text, base, file = path.read_text(encoding="utf-8"), str(path.parent), str(path)
        else:
            text = _call.call(["studies", str(path), "--file"], False).printed()
    try:
        return _native.documents(text, file, base, overrides, scale, collection, start, stop, version)
    except (ValueError, OverflowError) as error:
        raise _errors.of(2, str(error)) from None
