"""Load generators of others, beside which `make bench` measures: `wrk`, and `memcaslap` of libmemcached."""

from . import cache, debian


def install():
    """The unpacked packages `wrk` and `libmemcached-tools`."""
    packages = {"wrk": "4.1.0-", "libmemcached-tools": "1.1.4-"}
    needing = ["usr/bin/wrk", "usr/bin/memcaslap"]
    return cache.installed("bench-tools-1", lambda folder: debian.unpack(packages, needing, folder))
