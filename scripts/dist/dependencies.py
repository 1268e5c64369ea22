#!/usr/bin/env python3
"""Writes what the program is made of: an SBOM (CycloneDX 1.5) and the licences of its libraries.

    scripts/dist/dependencies.py TARGET [--crate FOLDER] [--features F] [--no-default-features] --sbom F [--licences F]

Both list what is linked into the program, or into another crate, for TARGET: neither build scripts' nor tests'
dependencies. They depend only on Cargo.lock and the features.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = re.compile(r"^(licen[sc]e|copying|notice|unlicense)", re.IGNORECASE)
# In the folders of C sources within crates. zstd's COPYING is the GPL, which is offered besides; see deny.toml.
DEEPER = re.compile(r"^(licen[sc]e|notice)", re.IGNORECASE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--crate", default="crates/cli")
    parser.add_argument("--features", default=None)
    parser.add_argument("--no-default-features", action="store_true")
    parser.add_argument("--sbom", type=pathlib.Path, required=True)
    parser.add_argument("--licences", type=pathlib.Path)
    args = parser.parse_args()
    program, libraries = linked(args)
    args.sbom.write_text(json.dumps(sbom(program, libraries), indent=1, ensure_ascii=False) + "\n")
    if args.licences:
        args.licences.write_text(licences([found for found in libraries if found["source"]]))


def linked(args):
    """The program's package, and the packages that are linked into it, in order of name and version."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", args.target]
    command += ["--manifest-path", str(ROOT / args.crate / "Cargo.toml")]
    command += ["--features", args.features] if args.features else []
    command += ["--no-default-features"] if args.no_default_features else []
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {found for found in packages if any("proc-macro" in target["kind"] for target in packages[found]["targets"])}
    root = metadata["resolve"]["root"]
    seen, todo = set(), [root]
    while todo:
        found = todo.pop()
        if found in seen or found in macros:
            continue
        seen.add(found)
        todo += [of["pkg"] for of in nodes[found]["deps"] if any(kind["kind"] is None for kind in of["dep_kinds"])]
    order = lambda package: (package["name"], package["version"])
    return packages[root], sorted((packages[found] for found in seen - {root}), key=order)


def component(package, kind):
    found = {
        "type": kind,
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        # Old manifests write `MIT/Apache-2.0`.
        found["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    return found


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def sbom(program, libraries):
    """https://cyclonedx.org/docs/1.5/json/; without a time and a serial number, which would differ between builds."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(program, "application")},
        "components": [component(package, "library") for package in libraries],
    }


def licences(libraries):
    """Each text once, below the libraries that have it."""
    having = collections.defaultdict(list)
    without = []
    for package in libraries:
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(file for file in folder.iterdir() if file.is_file() and NAMES.match(file.name))
        if package["name"].endswith("-sys"):
            files += sorted(file for file in folder.glob("*/*") if file.is_file() and DEEPER.match(file.name))
        name = f"{package['name']} {package['version']}"
        for file in files:
            having[file.read_text(errors="replace").strip()].append(name)
        if not files:
            without.append(f"{name}: {package['license'] or sys.exit(f'{name} names no licence')}")
    parts = ["Storebench contains these libraries of others."]
    if without:
        parts.append("These come without the text of their licence:\n\n" + "\n".join(without))
    for text, names in sorted(having.items(), key=lambda item: item[1]):
        parts.append("=" * 80 + "\n" + "\n".join(dict.fromkeys(names)) + "\n" + "-" * 80 + "\n" + text)
    return "\n\n".join(parts) + "\n"


main()
