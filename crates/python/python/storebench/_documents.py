"""Documents of a study."""

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
    """Generates documents of a study, the same that a run writes.

    Args:
        study: A path, the name of a built-in study, a text in TOML, or a dictionary.
        collection: The collection.
        start: The first document, from 0.
        stop: The end, which is not included. None for all.
        version: 0 for documents as loaded; greater ones are what writes of a run leave.
        scale: Multiplies the number of documents.
        set: Overrides such as ``"collections.books.size=2KB"``.

    Returns:
        A stream that polars, pandas, DuckDB and pyarrow read, with the columns ``index``, ``key`` and ``document``. It
        can also be iterated, as dictionaries. It is read once, and generates documents while it is read.

    Raises:
        BadInput: The study is invalid, or the collection has no such documents.
    """
    text = text_of(study)
    base, file = os.curdir, "study.toml"
    if text is None:
        assert not isinstance(study, Mapping)
        path = pathlib.Path(os.fspath(study))
        if path.is_file():
            text, base, file = path.read_text(encoding="utf-8"), str(path.parent), str(path)
        else:
            text = _call.result(["studies", str(path), "--file"], False)
    try:
        return _native.documents(text, file, base, list(set), scale, collection, start, stop, version)
    except ValueError as error:
        raise _errors.of(2, str(error)) from None
