"""The backends of this build, and why a request takes one and not another."""

from dataclasses import dataclass

import torch

from . import _native


@dataclass(frozen=True)
class Backend:
    """A backend of this build."""

    name: str
    """Name to force it by."""
    available: bool
    """Whether it can run on this machine."""
    reason: str
    """Why not, when it cannot."""


@dataclass(frozen=True)
class Choice:
    """What a plan makes of a backend."""

    name: str
    """Name of the backend, or of one of a GPU's product engines."""
    taken: bool
    """Whether the request would run on it. Of product engines, more than one may be: the first that takes the
    strides of a call."""
    reason: str
    """Why it is taken, or what stands against it."""


def backends() -> list[Backend]:
    """The backends of this build, fastest first, and why one cannot run here."""
    found = []
    for line in torch.ops.samebits.backends.default().splitlines():
        name, _, reason = line.partition("\t")
        found.append(Backend(name, not reason, reason))
    reason = cuda_problem()
    found.append(Backend("cuda", not reason, reason))
    return found


def cuda_problem() -> str:
    """What stands against CUDA here; empty when nothing does."""
    return _native.cuda_problem or ("" if torch.cuda.is_available() else "torch finds no CUDA device")


def choices(place: str, asked: str | None, chosen: str, refused: bool, engines: dict) -> tuple[Choice, ...]:
    """Each backend, for operands on `place`, where `asked` was asked for and the library chose `chosen`.

    `engines` says of each of a GPU's product engines "taken", or why not.
    """
    found = [_choice(backend, place, asked, chosen, refused) for backend in backends()]
    first = "the fastest that can run here"
    for name, text in engines.items():
        taken = text == "taken" and not refused
        if taken:
            text, first = (
                "asked for by name" if asked == name else first,
                "takes what the ones before it leave",
            )
        elif text == "taken":
            text = "the request itself is refused"
        found.append(Choice(name, taken, text))
    return tuple(found)


def _choice(backend: Backend, place: str, asked: str | None, chosen: str, refused: bool) -> Choice:
    name = backend.name
    if not backend.available:
        return Choice(name, False, backend.reason)
    if (name == "cuda") != place.startswith("cuda"):
        return Choice(name, False, f"the operands are on {place}")
    if refused:
        return Choice(name, False, "the request itself is refused")
    anything = asked in (None, "auto")
    if name == chosen:
        named = "asked for by name" if asked == name else f"{asked!r} is a part of it"
        return Choice(name, True, "the fastest that can run here" if anything else named)
    if not anything:
        return Choice(name, False, f"{asked!r} is asked for by name")
    return Choice(name, False, f"{chosen!r} is faster")
