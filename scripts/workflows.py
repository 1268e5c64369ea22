#!/usr/bin/env python3
"""Checks that workflows do only what also runs outside GitHub.

Each `run:` of a workflow is `make TARGET`, and the Makefile has the target; `${{ matrix.NAME }}` stands for each
value of the list NAME. Each `run:` of action.yml is a script of this repository. Each action of others has a version or
a commit.
Without YAML, which Python cannot read: `run:` and lists are on one line each.
"""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = re.compile(r"^\s*(?:- )?run:(.*)$", re.M)
USES = re.compile(r"^\s*(?:- )?uses:\s*(\S+)", re.M)


def commands(text):
    """What the steps run, with each value of the matrix."""
    for found in RUN.findall(text):
        name = re.search(r"\$\{\{ matrix\.(\w+) \}\}", found)
        values = re.search(rf"^\s*{name[1]}: \[(.*)\]$", text, re.M)[1].split(", ") if name else [None]
        for value in values:
            yield (found.replace(name[0], value) if name else found).strip()


def problems(file, text, targets):
    """What is wrong in a workflow or an action, a line for each."""
    is_action = file.endswith("action.yml")
    for command in commands(text):
        if is_action:
            script = re.fullmatch(r"'\"\$GITHUB_ACTION_PATH/(scripts/\S+)\"( \w+)?'", command)
            if not script or not os.access(ROOT / script[1], os.X_OK):
                yield f"{file}: `run: {command}` is not a script of this repository"
        else:
            target = re.fullmatch(r"make ([a-z-]+)", command)
            if not target or target[1] not in targets:
                yield f"{file}: `run: {command}` is not `make TARGET` with a target of the Makefile"
    for action in USES.findall(text):
        if not re.fullmatch(r"\./\S*|[^@]+@(v\d\S*|[0-9a-f]{40})", action):
            yield f"{file}: `uses: {action}` has no version"
    if not is_action and not re.search(r"^permissions:\n  contents: read\n(?!  )", text, re.M):
        yield f"{file}: `permissions` of the workflow are not `contents: read` alone"


def self_test():
    """Tests the checks with cases that they must find."""
    allowed = "permissions:\n  contents: read\n\n"
    for text, count in [
        ("  - run: make tidy\n", 0),
        ("  - run: make no-such-target\n", 1),
        ("  - run: |\n      make tidy\n", 1),
        ("  - run: make tidy && curl example.com\n", 1),
        ("    target: [tidy, gone]\n  - run: make ${{ matrix.target }}\n", 1),
        ("  - uses: actions/checkout@main\n", 1),
        ("  - uses: ./\n  - uses: actions/checkout@v6\n", 0),
    ]:
        assert len(list(problems("test.yml", allowed + text, {"tidy"}))) == count, text
    assert len(list(problems("test.yml", "permissions:\n  contents: write\n", set()))) == 1
    assert len(list(problems("action.yml", "  run: '\"$GITHUB_ACTION_PATH/scripts/none.sh\" install'\n", set()))) == 1


def main():
    self_test()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    files = sorted((ROOT / ".github/workflows").glob("*.yml")) + [ROOT / "action.yml"]
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    found = [line for file, text in texts.items() for line in problems(file, text, targets)]
    for line in found:
        print(line, file=sys.stderr)
    if found:
        sys.exit(1)
    steps = sum(len(list(commands(text))) for text in texts.values())
    print(f"workflows: {len(files)} files, {steps} steps, all of them in the Makefile or in scripts")


main()
