"""Exception types, and the way from a native error to the Python one."""

from typing import NoReturn


class NotDifferentiableError(RuntimeError):
    """A derivative was asked for that this version cannot give. Raised instead of a silent detach."""


_KINDS = {"value": ValueError, "type": TypeError, "unsupported": RuntimeError}


def translate(error: Exception) -> Exception | None:
    """The exception a native error stands for; None when `error` does not come from the library.

    The stable ABI lets every C++ exception through as RuntimeError, so the binding puts the kind in front of
    the message: "[samebits:value] ARGUMENT: what it was; what it may be".
    """
    text = str(error)
    mark = text.find("[samebits:")
    if mark < 0:
        return None
    kind, message = text[mark + len("[samebits:") :].split("] ", 1)
    return _KINDS[kind](message.split("\n", 1)[0])


def raise_clearly(error: Exception, check=lambda: None, *arguments) -> NoReturn:
    """Raise the Python form of a native error, or what `check(*arguments)` finds, or `error` itself."""
    translated = translate(error)
    if translated is None or str(translated).startswith(("dtype: ", "shape: ")):
        check(*arguments)  # knows the argument whose dtype or rank no view of the library can have
    if translated is not None:
        raise translated from None
    raise error
