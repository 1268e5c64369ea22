#!/usr/bin/env python3
"""Checks that every dependency has a licence that deny.toml allows.

Checks what is built on this machine's platform: normal, build and test dependencies. Prints the number of crates for
each licence. Ends with exit code 1 and a list of the crates whose licence is not allowed.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATORS = {"AND", "OR", "WITH", "(", ")"}


def allowed_licences(text):
    """The quoted names of `allow = [...]`. Python before 3.11 has no TOML parser."""
    found = re.search(r"^allow\s*=\s*\[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit("deny.toml: `allow = [...]` is missing")
    return set(re.findall(r'"([^"]+)"', found.group(1)))


class Expression:
    """An SPDX expression, and whether a set of licences satisfies it."""

    def __init__(self, text, allowed):
        # Old manifests write `MIT/Apache-2.0`.
        text = text.replace("/", " OR ")
        self.words = text.replace("(", " ( ").replace(")", " ) ").split()
        self.at = 0
        self.allowed = allowed

    def peek(self):
        return self.words[self.at] if self.at < len(self.words) else None

    def take(self):
        self.at += 1
        return self.words[self.at - 1]

    def satisfied(self):
        result = self.any_of()
        if self.peek() is not None:
            raise ValueError(f"unexpected `{self.peek()}`")
        return result

    def any_of(self):
        result = self.all_of()
        while self.peek() == "OR":
            self.take()
            # Parse to the end, even if the result is known.
            result = self.all_of() or result
        return result

    def all_of(self):
        result = self.one()
        while self.peek() == "AND":
            self.take()
            result = self.one() and result
        return result

    def one(self):
        if self.peek() is None:
            raise ValueError("a name is missing at the end")
        name = self.take()
        if name == "(":
            result = self.any_of()
            if self.peek() != ")":
                raise ValueError("a `)` is missing")
            self.take()
            return result
        if name in OPERATORS:
            raise ValueError(f"unexpected `{name}`")
        if self.peek() == "WITH":
            self.take()
            name = f"{name} WITH {self.take()}"
        return name in self.allowed


def check(packages, allowed):
    """The problems, a line for each crate."""
    wrong = []
    for package in packages:
        crate = f"{package['name']} {package['version']}"
        licence = package["license"]
        if not licence:
            wrong.append(f"{crate}: has no licence name (file: {package['license_file'] or 'none'})")
            continue
        try:
            if not Expression(licence, allowed).satisfied():
                wrong.append(f"{crate}: `{licence}` is not allowed by deny.toml")
        except ValueError as error:
            wrong.append(f"{crate}: `{licence}` cannot be read: {error}")
    return wrong


def dependencies():
    """Crates from outside this workspace that are built on this platform."""
    version = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = re.search(r"^host: (.*)$", version, re.MULTILINE).group(1)
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    return [p for p in metadata["packages"] if p["id"] in used and p["source"]]


def self_test():
    """Tests the parser of expressions with known cases."""
    allowed = {"MIT", "Apache-2.0", "Unicode-3.0"}
    cases = [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT/Apache-2.0", True),
        ("Apache-2.0 OR GPL-2.0-only", True),
        ("GPL-2.0-only AND MIT", False),
        ("(MIT OR GPL-3.0-only) AND Unicode-3.0", True),
        ("(MIT OR GPL-3.0-only) AND Zlib", False),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("Apache-2.0 WITH LLVM-exception OR MIT", True),
    ]
    for text, expected in cases:
        assert Expression(text, allowed).satisfied() is expected, text
    package = {"name": "a", "version": "1", "license": None, "license_file": None}
    assert check([package], allowed) == ["a 1: has no licence name (file: none)"]
    assert "cannot be read" in check([{**package, "license": "MIT OR"}], allowed)[0]


def main():
    self_test()
    allowed = allowed_licences((ROOT / "deny.toml").read_text())
    packages = dependencies()
    counts = collections.Counter(p["license"] or "none" for p in packages)
    for licence, count in counts.most_common():
        print(f"{count:4}  {licence}")
    wrong = check(packages, allowed)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print("replace the crate, or add its licence to deny.toml if we can comply with its terms", file=sys.stderr)
        sys.exit(1)
    print(f"licences: {len(packages)} dependencies, all allowed")


if __name__ == "__main__":
    main()
