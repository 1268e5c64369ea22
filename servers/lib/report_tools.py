"""The tools that build and test the report's script: the packages of `report/package-lock.json`."""

import shutil

from . import cache, npm

REPORT = npm.HERE.parent / "report"


def install():
    """A folder with `node_modules`. Each lock file has its own folder."""
    return cache.installed(f"report-tools-{cache.digest(REPORT / 'package-lock.json')}", _build)


def _build(folder):
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(REPORT / name, folder)
    npm.ci(folder)
