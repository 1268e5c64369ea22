"""``python -m storebench``: the command line."""

from ._cli import main

main()
