"""Text to learn from, and a word-level tokenizer that any UTF-8 text survives."""

import re
from collections import Counter
from pathlib import Path

from samebits.demo.errors import DemoError

MIN_CHARACTERS = 20_000
PIECE = re.compile(r" ?[^\W\d_]+| ?\d| ?[^\w\s]| ?_|\s+(?!\S)|\s+")
BYTES = 256  # ids 0..255 are single bytes, for whatever the vocabulary lacks


def read_text(path: str | None) -> tuple[str, str]:
    """The training text and a name for it: `path`, or the language reference that every CPython carries."""
    if path is None:
        try:
            from pydoc_data.topics import topics
        except ImportError:
            raise DemoError("this Python has no pydoc_data.topics to learn from: give --text FILE") from None
        return "\n\n".join(topics.values()), "the Python language reference (pydoc_data.topics)"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DemoError(f"--text {path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DemoError(f"--text {path}: not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise DemoError(f"--text {path}: {error.strerror}") from None
    if len(text) < MIN_CHARACTERS:
        raise DemoError(f"--text {path}: {len(text):,} characters; at least {MIN_CHARACTERS:,} are needed")
    return text, path


class Tokenizer:
    """Frequent words and signs, each with its leading space, have an id; all else is spelled in bytes."""

    def __init__(self, text: str, max_vocab: int):
        counts = Counter(PIECE.findall(text))
        frequent = [piece for piece, _ in counts.most_common(max_vocab - BYTES)]
        self.pieces = [bytes([byte]) for byte in range(BYTES)] + [piece.encode() for piece in frequent]
        self.ids = {piece: BYTES + index for index, piece in enumerate(frequent)}

    @property
    def vocab(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in PIECE.findall(text):
            known = self.ids.get(piece)
            ids.extend(piece.encode() if known is None else [known])
        return ids

    def decode(self, ids) -> str:
        return b"".join(self.pieces[i] for i in ids).decode(errors="replace")
