"""One look for all figures, and files whose bytes depend on nothing but the drawing."""

import io
import re
from contextlib import contextmanager

import matplotlib
from matplotlib.figure import Figure

INK, MUTED, GRID, UNTESTED, FAILED, ZERO = (
    "#1f2933", "#52606d", "#e4e7eb", "#c9ced4", "#c2412d", "#0f766e",
)  # fmt: skip
SERIES = ("#0f766e", "#3b6fb6", "#c98a1b", "#8a4f9e", "#c2412d", "#6b7280")
MARKERS = ("o", "s", "^", "D", "v", "P")


@contextmanager
def fixed():
    """matplotlib's own defaults, whatever this machine's are, and no randomness in SVG."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "samebits.report",
                "svg.fonttype": "none",  # words stay words, and files small
                "font.family": "sans-serif",
                "font.sans-serif": ["DejaVu Sans"],
                "text.color": INK,
                "axes.labelcolor": INK,
                "xtick.color": INK,
                "ytick.color": INK,
                "axes.edgecolor": GRID,
            }
        )
        yield


def sheet(width: float, height: float, title: str) -> Figure:
    """An empty figure with its title; not pyplot: no window system, no global state."""
    figure = Figure(figsize=(width, height), dpi=90, facecolor="white")
    figure.text(0.02, 1 - 0.3 / height, title, fontsize=13, weight="bold", color=INK, va="center")
    return figure


def rendered(figure: Figure, kind: str) -> bytes:
    """The file's bytes, without date or version."""
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata)
    drawn = buffer.getvalue()
    return drawn if kind == "png" else re.sub(rb"<!--.*?-->|(?<=\n)[ \n]+", b"", drawn, flags=re.S)
