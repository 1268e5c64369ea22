"""Packages from npm, installed from their lock files."""

import pathlib
import shutil

from . import cache

HERE = pathlib.Path(__file__).parent.parent


def install(manifest, folder):
    """Runs `npm ci` with the lock file in `servers/MANIFEST`, which checks every package against its recorded hash."""
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(HERE / manifest / name, folder)
    ci(folder)


def ci(folder):
    """Runs `npm ci` with the lock file in the folder."""
    # Nothing is compiled and no script of a package runs.
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    cache.run([*npm, "--omit-lockfile-registry-resolved"], cwd=folder)
