"""Prometheus 2.42 from Debian, and promtool, with which a test scrapes a run."""

from . import debian

BINARIES = ["usr/bin/prometheus", "usr/bin/promtool"]


def install():
    """The unpacked package `prometheus`."""
    return debian.installed("prometheus-2.42", {"prometheus": "2.42.0"}, BINARIES)
