"""Errors a person can act on."""

import importlib


class DemoError(Exception):
    """Printed as one line, without a traceback; the exit status is 2."""


def need(module: str, pip_names: str, what_for: str):
    """The imported `module`, or a DemoError that names the pip command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise DemoError(f"{what_for} needs the package {module}: pip install {pip_names}") from None
