"""`couchbackup` and `couchrestore` from npm, the reference of `make bench` for copies into CouchDB."""

from . import cache, npm

BINARIES = "node_modules/.bin"


def install():
    """Its folder; the programs need Node.js 20 or later."""
    return cache.installed("couchbackup-2.11.12", lambda folder: npm.install("couchbackup", folder))
