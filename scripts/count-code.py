#!/usr/bin/env python3
"""Counts the product's code: lines of `crates/*/src` that are neither blank nor comment, without tests.

    scripts/count-code.py [FOLDER of a checkout]

Skips modules marked `#[cfg(test)]`, inline or in their own file, and the files below such a module. Prints a line for
each crate, and the sum.
"""

import re
import sys
from pathlib import Path

MODULE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*(;|\{)")
PATH = re.compile(r'^\s*#\[path = "([^"]+)"\]')


def without_comments(text):
    """The lines without comments, including blank ones. Handles marks in strings, but not in raw strings with quotes."""
    out, depth, string = [], 0, None
    for line in text.split("\n"):
        kept, at = "", 0
        while at < len(line):
            two = line[at : at + 2]
            if string is not None:
                if line.startswith(string, at):
                    kept += string
                    at += len(string)
                    string = None
                elif string == '"' and line[at] == "\\":
                    kept += two
                    at += 2
                else:
                    kept += line[at]
                    at += 1
            elif depth:
                depth += {"/*": 1, "*/": -1}.get(two, 0)
                at += 2 if two in ("/*", "*/") else 1
            elif two == "//":
                break
            elif two == "/*":
                depth, at = 1, at + 2
            else:
                raw = re.match(r'b?r(#*)"', line[at:]) if not (at and (line[at - 1].isalnum() or line[at - 1] == "_")) else None
                char = re.match(r"b?'(\\.[^']*|[^'\\])'", line[at:])
                if raw:
                    string = '"' + raw[1]
                    kept += raw[0]
                    at += len(raw[0])
                elif char:
                    kept += "' '"
                    at += len(char[0])
                else:
                    if line[at] == '"':
                        string = '"'
                    kept += line[at]
                    at += 1
        out.append(kept)
    return out


def braces(line):
    """The number of opening braces minus closing ones, outside of strings."""
    line = re.sub(r'"(\\.|[^"\\])*"', "", line)
    return line.count("{") - line.count("}")


def code_of(path, skipped):
    """Counts the lines of code of a file. Adds the files of test modules to `skipped`."""
    lines = without_comments(path.read_text())
    count, at, marked, placed = 0, 0, False, None
    here = path.parent if path.name in ("mod.rs", "lib.rs", "main.rs") else path.with_suffix("")
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip():
            continue
        if re.match(r"^\s*#\[cfg\((all\()?test\b", line):
            marked = True
            continue
        if marked and line.lstrip().startswith("#["):
            found = PATH.match(line)
            placed = found[1] if found else placed
            continue
        if marked:
            module = MODULE.match(line)
            if module and module[2] == ";":
                for file in [path.parent / placed] if placed else [here / f"{module[1]}.rs", here / module[1] / "mod.rs"]:
                    skipped.add(file.resolve())
                    skipped.add((file.parent if file.name == "mod.rs" else file.with_suffix("")).resolve())
            else:
                # An item: skip to its last brace or semicolon.
                depth = braces(line)
                while at < len(lines) and (depth > 0 or not re.search(r"[;}]\s*$", line)):
                    line = lines[at]
                    depth += braces(line)
                    at += 1
            marked, placed = False, None
            continue
        count += 1
    return count


def crate(src):
    skipped, counts = set(), {}
    for path in sorted(src.rglob("*.rs")):
        counts[path.resolve()] = code_of(path, skipped)
    return sum(n for path, n in counts.items() if not any(p in skipped for p in [path, *path.parents]))


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    total = 0
    for src in sorted(root.glob("crates/*/src")):
        if src.parent.name == "fakes":
            continue
        lines = crate(src)
        total += lines
        print(f"{lines:7,}  {src.parent.name}")
    print(f"{total:7,}  total")


main()
