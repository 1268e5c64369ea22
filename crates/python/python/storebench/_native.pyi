import os
from collections.abc import Callable, Iterator
from typing import Any, final

@final
class Table:
    """A table in memory. polars, pandas, DuckDB and pyarrow take it without a copy."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    def __len__(self) -> int:
        """The number of rows."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream (PyCapsule interface)."""

    def __arrow_c_schema__(self) -> object:
        """The schema (PyCapsule interface)."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""

@final
class Stream:
    """Rows that are made while they are read: once, by a consumer of Arrow or by iterating."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream (PyCapsule interface)."""

    def __arrow_c_schema__(self) -> object:
        """The schema (PyCapsule interface)."""

    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __next__(self) -> dict[str, Any]: ...

@final
class Histogram:
    """Times in ns, with 3 significant digits."""

    @property
    def mean(self) -> float | None:
        """The mean in ns; None if it is empty."""

    @property
    def max(self) -> int | None:
        """The greatest time in ns; None if it is empty."""

    def __len__(self) -> int:
        """How many times it holds."""

    def percentile(self, percent: float) -> int | None:
        """The time in ns that ``percent`` (0 to 100) of the times do not exceed; None if it is empty."""

    def buckets(self) -> Table:
        """Its buckets: ``from_ns`` and ``to_ns`` (both included), and ``count``. Empty buckets are left out."""

@final
class Reader:
    """A source that is open, with the options of ``copy``."""

    def __new__(cls, source: str, options: list[str]) -> Reader: ...
    def fingerprint(self) -> str:
        """Changes when the source changes."""

    def collection(self) -> str | None:
        """The collection that is read, if the source has collections."""

    def splits(self) -> list[str]:
        """The parts of the source, each as a text."""

    def columns(self) -> tuple[str, bool]:
        """The columns as a text, and whether there may be fields outside them."""

    def stream(
        self,
        splits: list[str] | None,
        columns: str | None,
        names: tuple[str, str],
        binary: bool,
    ) -> Stream:
        """Starts to read these parts, or all. Without ``columns``, rows are the key and the document."""

def main(args: list[str]) -> int: ...
def options() -> dict[str, bool]: ...
def provide(name: str, adapter: object) -> None: ...
def check_server(url: str) -> None: ...
def call(
    args: list[str],
    tell: Callable[[Any], None] | None,
    program: str | None,
    tasks: object | None = None,
    task: str | None = None,
    meet: Callable[[str], list[str]] | None = None,
    input: str | None = None,
) -> tuple[int, str, str | None, bool]: ...
def read_run(path: str | os.PathLike[str]) -> str: ...
def said(path: str | os.PathLike[str]) -> str: ...
def table(folder: str | os.PathLike[str], name: str) -> Table: ...
def trials(path: str | os.PathLike[str]) -> Table: ...
def generators(path: str | os.PathLike[str]) -> Table: ...
def histogram(
    folder: str | os.PathLike[str],
    op: str,
    phase: str,
    series: str,
    trial: int | None,
    configuration: str | None,
) -> Histogram: ...
def documents(
    text: str,
    file: str,
    base: str,
    overrides: list[str],
    scale: float,
    collection: str,
    start: int,
    stop: int | None,
    version: int,
) -> Stream: ...
def toml_of(json: str) -> str: ...
