"""What copies and runs have in common: where files are, what a failed task said, and what Spark runs at once."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from .. import _errors

# An exception of this package at the end of a worker's traceback.
ERROR = re.compile(r"storebench\._errors\.(\w+): (.*?)(?=\n\s*\n|\n\tat |\Z)", re.DOTALL)

# Any other exception at the end of a traceback.
OTHER = re.compile(r"\n(?!org\.|java\.)(\w[\w.]*(?:Error|Exception|Interrupt)\w*: [^\n]*)")


LOOK_EVERY_S = 0.1
"""How often to look at what runs."""
END_LIMIT_S = 30.0
"""How long to wait for the tasks of a job that failed."""


def context_of(spark: Any) -> Any:
    """Returns the context of a session."""
    try:
        return spark.sparkContext
    except Exception:
        raise _errors.not_expected("spark", "a SparkSession that is not of Spark Connect", spark) from None


def absolute(name: str, value: object) -> str:
    """Returns a path that is the same in every process. URLs stay as they are."""
    place = _errors.path(name, value, "the URL of a store, or a path that Spark's workers see, too")
    if re.match(r"[a-z][a-z0-9+.-]*:", place) or place == "-":
        return place
    return os.path.abspath(place) + ("/" if place.endswith("/") else "")


def failure(error: Exception, what: str) -> _errors.StorebenchError:
    """Returns the error that a task reported, or else Spark's own message."""
    text = str(error)
    found = ERROR.search(text)
    if found is None:
        # Py4J's first line names only a method; Spark's own message follows.
        first = [line.lstrip(": ") for line in text.splitlines() if not line.startswith("An error occurred while")]
        said = next(iter([*OTHER.findall(text), *first]), type(error).__name__)
        if "No module named 'storebench'" in said:
            said += "; install this package for the Python of every worker (PYSPARK_PYTHON)"
        return _errors.of(1, f"{what} failed: {said}")
    kind = getattr(_errors, found[1], _errors.DataLost)
    return _errors.of(kind.code, found[2].strip())


def wait_for_tasks(context: Any, group: str) -> None:
    """Waits until no task of a group of jobs runs. Those of a job that failed run on until they notice it."""
    tracker, until = context.statusTracker(), time.monotonic() + END_LIMIT_S
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = [stage for job in jobs for stage in job.stageIds]

    def active() -> int:
        return sum(info.numActiveTasks for info in map(tracker.getStageInfo, stages) if info is not None)

    while active() and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)


def slots(context: Any) -> int:
    """Returns the number of tasks that run at the same time now."""
    try:
        java = context._jsc.sc()
        profile = context._jvm.org.apache.spark.resource.ResourceProfile
        most = java.maxNumConcurrentTasks(profile.getOrCreateDefaultProfile(java.conf()))
        return max(1, int(most))
    except Exception:
        # Not all versions let Python ask.
        return max(1, int(context.defaultParallelism))
