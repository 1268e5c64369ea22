"""What goes wrong, in words for whoever called the script."""


class Fault(Exception):
    """Ends a script with exit code 1 and this text on stderr: what happened, where, what to do next."""
