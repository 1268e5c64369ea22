#!/usr/bin/env python3
"""False alarms and slowdowns that are found, of `storebench history` and of Apache Otava on the same series.

    scripts/history-alarms.py STOREBENCH [SERIES]

Makes SERIES histories (default 100) of 200 nightly runs that differ by 3 % and of which none is slower, and as many of
60 such runs with 5 more that are 5 % slower. Counts the alarms in the first, and in how many of the second the slowdown
is found with one of the 5 runs. Otava is asked after each run, as a team would; alarms about the same place (within 5
runs) count once. Needs `pip install apache-otava`; without it, only Storebench's figures are printed.
"""

import json
import random
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path

NIGHTS, BEFORE, AFTER = 200, 60, 5
NOISE, SLOWER = 0.03, 0.05


def series(seed, nights, at):
    rng = random.Random(seed)
    return [1000 * exp(rng.gauss(0, NOISE) - (log(1 + SLOWER) if night >= at else 0)) for night in range(nights)]


def storebench(program, values):
    """The runs that found a change, from 0, with whether it is for the worse."""
    with tempfile.TemporaryDirectory() as folder:
        for night, value in enumerate(values):
            year, month, day = 2026 + night // 336, night // 28 % 12 + 1, night % 28 + 1
            configuration = {"configuration": "store", "version": "1", "work": "0", "figures": {"mixed.throughput": [value, None, None]}}
            began = f"{year}-{month:02}-{day:02}T02:00:00Z"
            entry = {"format": "storebench-history/1", "run": "nightly", "title": "", "began": began, "commit": None,
                     "branch": None, "storebench": "", "machine": "one", "system": SYSTEM,
                     "configurations": [configuration]}
            file = Path(folder, began[:7], f"{night:06}.json")
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(entry))
        out = subprocess.check_output([program, "history", "show", "--json", "--history", folder])
    line = json.loads(out)["lines"][0]
    nights = [value["began"] for value in line["values"]]
    found = [(nights.index(change["found"]["began"]), change["worse"]) for change in line["changes"]]
    return found + [(nights.index(back["found"]["began"]), True) for back in line["taken_back"]]


def otava(values, pvalue, first):
    """The same, for Otava with this p-value, asked after each run from `first` on."""
    from otava.analysis import compute_change_points

    known, found = [], []
    for runs in range(first, len(values) + 1):
        points, _ = compute_change_points(values[:runs], window_len=50, max_pvalue=pvalue, min_magnitude=0.0)
        for point in points:
            if all(abs(point.index - at) > 5 for at in known):
                known.append(point.index)
                found.append((runs - 1, point.stats.mean_2 < point.stats.mean_1))
    return found


def shares(detect, count):
    alarms = worse = found = 0
    for seed in range(count):
        of_noise = detect(series(seed, NIGHTS, NIGHTS), 13)
        alarms += len(of_noise)
        worse += sum(is_worse for _, is_worse in of_noise)
        slower = detect(series(1_000_000 + seed, BEFORE + AFTER, BEFORE), BEFORE + 1)
        found += any(is_worse and night >= BEFORE for night, is_worse in slower)
    return f"{alarms / count:.2f} alarms in {NIGHTS} runs ({worse / count:.2f} for the worse), {found / count:.0%} found"


SYSTEM = {"kernel": "", "os": None, "governor": None, "clock_source": None}


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    print(f"{count} histories of each kind: runs differ by {NOISE:.0%}, a slowdown by {SLOWER:.0%} after {BEFORE} runs")
    print("storebench history, one false alarm in 200 runs: ", shares(lambda values, _: storebench(program, values), count))
    try:
        import otava as _
    except ImportError:
        print("Otava is not installed")
        return
    for pvalue in (0.001, 0.005, 0.02):
        print(f"Otava, max-p-value {pvalue}: ", shares(lambda values, first: otava(values, pvalue, first), count))


if __name__ == "__main__":
    main()
