"""Whether two files show the same figure, where their bytes differ because other versions drew them."""

import io
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple
from xml.etree import ElementTree

# Points that another version may move words and shapes by. Words follow the height of a font's letters; the
# smallest step of anything measured is larger than what shapes may move by.
WORDS_APART, SHAPES_APART = 1.0, 0.05
OTHER_PIXELS = "has other pixels"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_MOVE = re.compile(r"(translate|rotate)\(([^)]*)\)")
_PLACES = ("d", "x", "y", "width", "height", "viewBox")
_NAMES = ("id", "href", "clip-path")


class Part(NamedTuple):
    """An element of a drawing."""

    says: str  # its kind, words, style and commands: all that is no place
    places: list[float]
    words: bool


def parts(svg: bytes) -> Iterator[Part]:
    """What is drawn, in order. Names, which depend on the last bits of places, become their numbers."""
    names: dict[str, int] = {}
    for element in ElementTree.fromstring(svg).iter():
        kind, says, places = element.tag.rpartition("}")[2], [(element.text or "").strip()], []
        for key, value in sorted((key.rpartition("}")[2], value) for key, value in element.items()):
            if key in _NAMES:
                value = str(names.setdefault(value.strip("url(#)"), len(names)))
            elif key in _PLACES:
                places += [float(number) for number in _NUMBER.findall(value)]
                value = _NUMBER.sub("", value)
            elif key == "transform":
                value = _MOVE.sub(partial(_without_places, places), value)
            says.append(f"{key}={value}")
        if behind := (element.tail or "").strip():
            says.append(f"before {behind}")
        yield Part(" ".join([kind, *says]), places, _is_words(element))


def _without_places(places: list[float], move: re.Match) -> str:
    """A step of a transform without its places, which are added to those given. An angle is none."""
    kind, numbers = move[1], [float(number) for number in _NUMBER.findall(move[2])]
    angles = 1 if kind == "rotate" else 0
    places += numbers[angles:]
    return f"{kind}({[angle + 0.0 for angle in numbers[:angles]]})"  # -0 is 0


def _is_words(element: ElementTree.Element) -> bool:
    """Words, or a group of nothing else: what moves a group moves all shapes in it."""
    kinds = {one.tag.rpartition("}")[2] for one in element.iter()}
    return bool(kinds & {"text", "tspan"}) and kinds <= {"text", "tspan", "g"}


def difference(name: str, before: bytes, after: bytes) -> str:
    """What the file shows in another way than what is drawn here; "" where that is nothing."""
    return (svg_difference if name.endswith(".svg") else png_difference)(before, after)


def svg_difference(before: bytes, after: bytes) -> str:
    """The first part that differs."""
    try:
        old, new = list(parts(before)), list(parts(after))
    except ElementTree.ParseError as error:
        return f"is no drawing ({error})"
    for one, other in zip(old, new, strict=False):
        if one.says != other.says or len(one.places) != len(other.places):
            return f"has '{one.says[:60]}' where '{other.says[:60]}' is drawn"
        apart = max((abs(a - b) for a, b in zip(one.places, other.places, strict=True)), default=0.0)
        if not apart <= (WORDS_APART if one.words else SHAPES_APART):
            return f"has '{one.says[:60]}' {apart:.2g} pt from where it is drawn"
    return "" if len(old) == len(new) else f"has {len(old)} parts where {len(new)} are drawn"


def png_difference(before: bytes, after: bytes) -> str:
    """Pixels alone: no bound on them tells the letters of another version from other letters."""
    from PIL import Image, ImageChops

    try:
        old, new = (Image.open(io.BytesIO(content)).convert("RGB") for content in (before, after))
    except OSError as error:
        return f"is no picture ({error})"
    if old.size != new.size:
        return f"has {old.size} pixels where {new.size} are drawn"
    return OTHER_PIXELS if ImageChops.difference(old, new).getbbox() else ""
