"""The picture: the share of log-probs that differ, and how far the policy ratio is from 1."""

from pathlib import Path

import torch

from samebits.demo.trainer import PASSES, Comparison

COLOURS = ("#c2412d", "#c98a1b", "#0f766e")  # plain bf16, plain fp32, samebits
INK, MUTED, GRID = "#1f2933", "#52606d", "#e4e7eb"
LOWEST, HIGHEST = -8.0, -0.5  # log10 of the ratio errors that are drawn


def draw(path: Path, by_head: dict[str, list[Comparison]], subtitle: str) -> None:
    """`by_head` holds the three heads in the order of COLOURS."""
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    figure = Figure(figsize=(12.4, 5.8), dpi=150, facecolor="white")
    title = "The trainer recomputes the rollout's log-probs: do the bits agree?"
    figure.text(0.025, 0.935, title, fontsize=17.5, weight="bold", color=INK)
    figure.text(0.025, 0.885, subtitle, fontsize=11, color=MUTED)
    bars = figure.add_axes((0.14, 0.155, 0.315, 0.62))
    cloud = figure.add_axes((0.525, 0.155, 0.455, 0.62))
    draw_shares(bars, by_head)
    draw_ratio_errors(cloud, by_head)
    note = (
        "Both sides start from the hidden states recorded at rollout: layers below the LM head are not "
        "samebits'. Trainer's formula: z − logsumexp(z); bf16: log-softmax left in bf16; samebits: unfused."
    )
    figure.text(0.025, 0.028, note, fontsize=8.8, color=MUTED)
    figure.savefig(path, metadata={"Software": "samebits.demo"})


def tidy(axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=12, color=INK, pad=10, weight="bold")
    axes.tick_params(length=0, labelsize=10.5, colors=INK)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def draw_shares(axes, by_head: dict[str, list[Comparison]]) -> None:
    height = 0.27
    for index, (colour, comparisons) in enumerate(zip(COLOURS, by_head.values(), strict=True)):
        for at, comparison in enumerate(comparisons):
            share = 100 * comparison.differing / comparison.tokens
            y = at + (index - 1) * height
            axes.barh(y, share, height * 0.84, color=colour)
            text = "0" if comparison.differing == 0 else f"{share:.1f}%" if share < 10 else f"{share:.0f}%"
            axes.text(share + 1.2, y, text, va="center", fontsize=9, color=colour, weight="bold")
    axes.set_yticks(range(len(PASSES)), PASSES)
    axes.set_ylim(len(PASSES) - 0.45, -0.55)
    axes.set_xlim(0, 108)
    axes.set_xticks(range(0, 101, 25), [f"{x}%" for x in range(0, 101, 25)])
    tidy(axes, "Log-probs whose bits differ")


def draw_ratio_errors(axes, by_head: dict[str, list[Comparison]]) -> None:
    """One row for each head. A dot is a token, at the largest error of the trainer's passes."""
    jitter = torch.Generator().manual_seed(0)
    zero_at = LOWEST - 0.95
    for row, (colour, (name, comparisons)) in enumerate(zip(COLOURS, by_head.items(), strict=True)):
        errors = torch.stack([comparison.ratio_error for comparison in comparisons]).amax(0)
        shown = errors[errors > 0].log10().clamp(LOWEST, HIGHEST)
        share = 1 - shown.numel() / errors.numel()
        spread = (torch.rand(shown.numel(), generator=jitter) - 0.5) * 0.46
        axes.scatter(
            shown,
            row + 0.06 + spread,
            s=max(6, min(30, 4000 / errors.numel())),
            color=colour,
            alpha=0.35,
            linewidths=0,
        )
        if share > 0:
            axes.scatter([zero_at], [row + 0.06], s=750 + 1250 * share, color=colour, linewidths=0)
            text = "all" if share == 1 else f"{100 * share:.0f}%"
            style = {"ha": "center", "va": "center", "color": "white", "weight": "bold"}
            axes.text(zero_at, row + 0.06, text, fontsize=11, **style)
        axes.text(LOWEST + 0.08, row - 0.34, name, fontsize=12, color=colour, weight="bold", va="center")
        worst = float(errors.max())
        told = f"largest {worst:.1e}" if worst > 0 else f"exactly 0 for all {errors.numel():,} tokens"
        axes.text(HIGHEST, row - 0.34, told, fontsize=11, color=colour, ha="right", va="center")
    axes.set_ylim(len(by_head) - 0.55, -0.6)
    axes.set_xlim(zero_at - 0.6, HIGHEST + 0.05)
    powers = range(int(LOWEST), 0)
    axes.set_xticks([zero_at, *powers], ["exactly 0", *(f"$10^{{{power}}}$" for power in powers)])
    axes.set_yticks([])
    tidy(axes, "|policy ratio − 1| of each token, before any update")
    axes.axvline(LOWEST - 0.27, color="#9aa5b1", linewidth=1.0, linestyle=(0, (2, 3)))
