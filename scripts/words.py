#!/usr/bin/env python3
"""Finds words that the glossary has replaced, so that each thing has one name, and what a merge has left.

    scripts/words.py        lists the places, and ends with exit code 1 if there are any
"""

import re
import subprocess
import sys

OLD = re.compile(
    r"(?<!24.04-)\barms?\b|\bArms?\b|slot_wait|slots_busy|\b[Ss]lip\b(?! of the pen)|\bcensored\b|\bregimes?\b|held_share"
    r"|noisy-blocks|schedule-slip|rate-not-held|limit-not-held|\bverdicts\b|\banew\b|\bin vain\b|\bended whole\b"
)

# What git writes at both ends of a conflict.
CONFLICT = re.compile(r"(<{7}|>{7}) ")

# Where such words have another meaning, or stand in what was written earlier.
ALLOWED = (
    "CHANGELOG.md",
    "docs/evidence/",
    "report/dist/",
    "report/vendor/",
    "scripts/words.py",
)


def main():
    files = subprocess.check_output(["git", "ls-files", "-z"], text=True).split("\0")
    found, conflicts = [], []
    for name in files:
        if not name:
            continue
        try:
            with open(name, encoding="utf-8") as file:
                lines = file.read().split("\n")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        any_words = name.startswith(ALLOWED) or name.endswith((".lock", "package-lock.json"))
        for nth, line in enumerate(lines, 1):
            if CONFLICT.match(line):
                conflicts.append(f"{name}:{nth}: {line.strip()}")
            elif not any_words and OLD.search(line):
                found.append(f"{name}:{nth}: {line.strip()[:120]}")
    for place in found + conflicts:
        print(place)
    if found:
        print(f"{len(found)} lines use words that docs/glossary.md has replaced", file=sys.stderr)
    if conflicts:
        print(f"{len(conflicts)} lines are left of a merge with conflicts", file=sys.stderr)
    if found or conflicts:
        sys.exit(1)


main()
