"""Storebench on Spark 4: a data source, copies whose parts Spark schedules, and runs with many load generators.

Every worker needs this package. It runs the same native code as the command line, so all options, checks and messages
are the same.
"""

from ._copy import copy
from ._run import run
from ._source import DefaultSource

__all__ = ["DefaultSource", "copy", "run"]
