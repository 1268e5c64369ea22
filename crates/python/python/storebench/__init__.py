"""Benchmark, load, copy and verify document stores.

Functions take the options of the command line as keyword arguments: ``--in-flight 8`` is ``in_flight=8``. Names contain
their units: ``_ns`` nanoseconds, ``_bytes`` bytes, ``_per_s`` per second, ``_share`` a fraction from 0 to 1.
"""

from ._documents import documents, read
from ._errors import (
    BadInput,
    DataLost,
    InvalidMeasurement,
    StorebenchError,
    StorebenchWarning,
    Unreachable,
)
from ._gate import GateFailed, GateUndecided, gate
from ._native import Histogram, Stream, Table
from ._run import Check, Run, open_run
from ._stores import NotDone, Refused, Temporary
from ._verbs import Study, bench, compare, conform, copy, merge, plan, run, verify

__all__ = [
    "BadInput",
    "Check",
    "DataLost",
    "GateFailed",
    "GateUndecided",
    "Histogram",
    "InvalidMeasurement",
    "NotDone",
    "Refused",
    "Run",
    "StorebenchError",
    "StorebenchWarning",
    "Stream",
    "Study",
    "Table",
    "Temporary",
    "Unreachable",
    "bench",
    "compare",
    "conform",
    "copy",
    "documents",
    "gate",
    "merge",
    "open_run",
    "plan",
    "read",
    "run",
    "verify",
]
