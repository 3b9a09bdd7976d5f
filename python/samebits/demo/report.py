"""What was found, as a table for people and as plain data."""

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from samebits.demo.trainer import PASSES, Comparison

SHARED = (
    "Both sides start from the hidden states recorded at rollout: the layers below the LM head are not "
    "samebits', and may differ too. Each LM head is compared with itself, bit for bit. The ratio is "
    "exp(trainer - rollout) before any update, so it ought to be exactly 1."
)


def union(comparisons: list[Comparison], rollout_logp: Tensor) -> tuple[int, float]:
    """Log-probs that differ in at least one pass, and the largest ratio error of all passes."""
    recorded = rollout_logp.view(torch.int32)
    differs = torch.stack([c.logp.view(torch.int32) != recorded for c in comparisons]).any(0)
    return int(differs.sum()), max(c.worst for c in comparisons)


def as_data(by_head: dict[str, list[Comparison]], rollout_logp: dict[str, Tensor]) -> list[dict]:
    """JSON-ready: one entry for each head, with its passes."""
    heads = []
    for name, comparisons in by_head.items():
        differing, worst = union(comparisons, rollout_logp[name])
        passes = [
            {"batching": c.layout, "differing": c.differing, "largest_ratio_error": c.worst}
            for c in comparisons
        ]
        heads.append(
            {"head": name, "differing_in_any": differing, "largest_ratio_error": worst, "passes": passes}
        )
    return heads


def print_example(console: Console, example: tuple[str, str]) -> None:
    prompt, response = example
    console.print("\n[bold]One of the sequences sampled[/] [dim](prompt, then what the model wrote)")
    console.print(Text.assemble((prompt, "dim"), (response, "green")))
    console.print()


def cell(differing: int, worst: float) -> str:
    if differing == 0:
        return "[bold green]0[/]"
    return f"[bold red]{differing:,}[/] [dim]{worst:.1e}[/]"


def print_table(console: Console, heads: list[dict], tokens: int, formulas: dict[str, str]) -> None:
    title = f"Of {tokens:,} log-probs: other bits than at rollout, largest |ratio - 1|"
    table = Table(title=title, title_style="bold")
    table.add_column("the trainer recomputes")
    for head in heads:
        table.add_column(head["head"], justify="right", header_style="bold cyan")
    for at, layout in enumerate(PASSES):
        passes = [head["passes"][at] for head in heads]
        table.add_row(layout, *(cell(p["differing"], p["largest_ratio_error"]) for p in passes))
    table.add_section()
    table.add_row(
        "[bold]any of these", *(cell(head["differing_in_any"], head["largest_ratio_error"]) for head in heads)
    )
    console.print(table)
    console.print(
        "[dim]Trainer's formula: " + "; ".join(f"{k}: {v}" for k, v in formulas.items()) + ".",
        soft_wrap=False,
    )
    console.print(f"[dim]{SHARED}")
