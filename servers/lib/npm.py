"""Packages of npm, installed by their lock files."""

import pathlib
import shutil

from . import cache

HERE = pathlib.Path(__file__).parent.parent


def install(manifest, folder):
    """`npm ci` of the lock file in `servers/MANIFEST`, which checks every package against its recorded hash."""
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(HERE / manifest / name, folder)
    ci(folder)


def ci(folder):
    """`npm ci` of the lock file that is in the folder."""
    # Nothing is compiled and no script of a package runs.
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    cache.run([*npm, "--omit-lockfile-registry-resolved"], cwd=folder)
