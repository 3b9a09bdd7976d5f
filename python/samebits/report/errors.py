"""Errors a person can act on."""


class ReportError(Exception):
    """Printed as one line, without a traceback; the exit status is 2."""
