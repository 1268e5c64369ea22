"""What `make bench` measures with: the load generators `wrk`, and `memcaslap` of libmemcached, and `valgrind`."""

from . import debian


def install():
    """The unpacked packages `wrk`, `libmemcached-tools` and `valgrind`."""
    packages = {"wrk": "4.1.0-", "libmemcached-tools": "1.1.4-", "valgrind": "1:3.19.0-"}
    needing = ["usr/bin/wrk", "usr/bin/memcaslap", "usr/bin/valgrind.bin"]
    return debian.installed("bench-tools-2", packages, needing)
