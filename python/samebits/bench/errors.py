"""Errors a person can act on."""


class BenchError(Exception):
    """Printed as one line, without a traceback; the exit status is 2."""
