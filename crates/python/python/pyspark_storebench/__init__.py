"""Spark finds data sources in modules whose names begin with ``pyspark_``. So ``format("storebench")`` needs no
registration where this package is installed.
"""

from storebench.spark import DefaultSource

__all__ = ["DefaultSource"]
