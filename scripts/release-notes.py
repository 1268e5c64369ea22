#!/usr/bin/env python3
"""Prints the section of CHANGELOG.md about the version in Cargo.toml.

    scripts/release-notes.py [TAG]

Ends with exit code 1 if the tag is not that of the version, or if the section is missing or has no day.
"""

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    if sys.argv[1:] and sys.argv[1] != f"v{version}":
        sys.exit(f"the tag is {sys.argv[1]}, but Cargo.toml has the version {version}: expected the tag v{version}")
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    for section in sections[1:]:
        title, _, text = section.partition("\n")
        if title.startswith(f"[{version}]"):
            if not re.fullmatch(r"\[\S+\] - \d{4}-\d\d-\d\d", title):
                sys.exit(f"CHANGELOG.md: `## {title}` has no day: expected `## [{version}] - YEAR-MONTH-DAY`")
            print(text.strip())
            return
    sys.exit(f"CHANGELOG.md has no section `## [{version}]`")


main()
