"""Studies as files, text or dictionaries."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import tempfile
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from . import _errors, _native

Study = str | os.PathLike[str] | Mapping[str, Any]
"""A study: a path, the name of a built-in study, TOML text, or a dictionary with the keys of a study file."""


def text_of(study: Study) -> str | None:
    """Returns the study as TOML, or None if it is a file or a built-in study."""
    if isinstance(study, Mapping):
        try:
            text = json.dumps(study)
        except (TypeError, ValueError) as error:
            raise _errors.of(2, f"a study: {error}") from None
        return _native.toml_of(text)
    path = _errors.path("study", study, "a path, the name of a built-in study, TOML text or a dictionary")
    return path if isinstance(study, str) and "\n" in study else None


def overrides_of(set: Iterable[str]) -> list[str]:
    """Returns the overrides of a study."""
    some = [set] if isinstance(set, str) else _errors.several("set", set, 'texts such as "phases.mixed.rate=500"')
    return [_errors.text("set", one) for one in some]


@contextlib.contextmanager
def as_file(study: Study) -> Generator[str]:
    """Provides the study as a file. Relative paths in text or a dictionary start at the current folder."""
    text = text_of(study)
    if text is None:
        assert not isinstance(study, Mapping)
        yield os.fspath(study)
        return
    here = pathlib.Path.cwd()
    folder = here if os.access(here, os.W_OK) else pathlib.Path(tempfile.gettempdir())
    # Its name is that of the run.
    path = folder / ".study.toml"
    for number in itertools.count(2):
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(text)
            break
        path = folder / f".study-{number}.toml"
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
