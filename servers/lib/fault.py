"""Errors for the user of a script."""


class Fault(Exception):
    """Ends a script with exit code 1 and this text on stderr: what happened, where, what to do next."""
