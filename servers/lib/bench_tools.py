"""Other load generators, the references of `make bench`: `wrk`, and `memcaslap` of libmemcached."""

from . import debian


def install():
    """The unpacked packages `wrk` and `libmemcached-tools`."""
    packages = {"wrk": "4.1.0-", "libmemcached-tools": "1.1.4-"}
    needing = ["usr/bin/wrk", "usr/bin/memcaslap"]
    return debian.installed("bench-tools-1", packages, needing)
