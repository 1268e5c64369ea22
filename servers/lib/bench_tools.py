"""What `make bench` measures with: `wrk`, `memcaslap` of libmemcached, `sysbench` and `valgrind`."""

from . import debian


def install():
    """The unpacked packages `wrk`, `libmemcached-tools`, `sysbench` and `valgrind`."""
    packages = {"wrk": "4.1.0-", "libmemcached-tools": "1.1.4-", "sysbench": "1.0.20+", "valgrind": "1:3.19.0-"}
    needing = ["usr/bin/wrk", "usr/bin/memcaslap", "usr/bin/sysbench", "usr/bin/valgrind.bin"]
    return debian.installed("bench-tools-3", packages, needing)
