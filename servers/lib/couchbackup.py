"""`couchbackup` and `couchrestore` of npm, beside which `make bench` restores into a CouchDB."""

from . import cache, npm

BINARIES = "node_modules/.bin"


def install():
    """Its folder; the programs need Node.js 20 or later."""
    return cache.installed("couchbackup-2.11.12", lambda folder: npm.install("couchbackup", folder))
