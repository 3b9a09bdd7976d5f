"""Functions named on the command line."""

import importlib
from collections.abc import Callable

from samebits.check.errors import CheckError


def load(argument: str, text: str) -> Callable:
    """The function that `module:function` names; `python -m` finds modules of the current folder too.

    Raises:
        CheckError: names the argument, and what is wrong with it.
    """
    module_name, colon, path = text.partition(":")
    if not (module_name and colon and path):
        raise CheckError(f"{argument} {text}: must be module:function")
    try:
        found = importlib.import_module(module_name)
    except Exception as error:  # whatever the module does while it is imported
        raise CheckError(f"{argument} {text}: {module_name} cannot be imported: {_line(error)}") from None
    for name in path.split("."):
        if not hasattr(found, name):
            raise CheckError(f"{argument} {text}: {module_name} has no {path}")
        found = getattr(found, name)
    if not callable(found):
        raise CheckError(f"{argument} {text}: is a {type(found).__name__}; must be a function")
    return found


def _line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
