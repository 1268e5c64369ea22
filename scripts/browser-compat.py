#!/usr/bin/env python3
"""Turns data.json of @mdn/browser-compat-data into JSON lines: one document for each feature.

    scripts/browser-compat.py data.json > browser-compat.jsonl

The package is one tree; a feature is a node with `__compat`. Its path in the tree, such as
`api.AbortController.abort`, is distinct and becomes the field `path`; the first part of it becomes
`area`. Everything else of the document is as published.
"""

import json
import sys


def features(node, path):
    for name, child in node.items():
        if name == "__compat":
            yield {"path": ".".join(path), "area": path[0], **child}
        elif isinstance(child, dict):
            yield from features(child, [*path, name])


def main():
    if len(sys.argv) != 2:
        sys.exit("give the path of data.json")
    with open(sys.argv[1], encoding="utf-8") as file:
        tree = json.load(file)
    for area, node in tree.items():
        # `browsers` lists releases, `__meta` the version.
        if area not in ("__meta", "browsers"):
            for document in features(node, [area]):
                print(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
