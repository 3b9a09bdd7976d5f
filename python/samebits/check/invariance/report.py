"""The invariance audit as a table, and its smallest failing case."""

from typing import Any


def print_report(console, data: dict[str, Any]) -> None:
    """A line for each dtype, axis and output."""
    from rich.table import Table

    shape = f"{data['rows']} rows, {data['vocab']} columns"
    shape += f", hidden size {data['hidden']}" if data["hidden"] else ""
    table = Table(
        title=f"{data['target']} on {data['device']}: bits that differ from the whole batch ({shape})"
    )
    for name in ("dtype", "axis", "output"):
        table.add_column(name)
    for name in ("calls", "refused", "elements", "that differ", "bits"):
        table.add_column(name, justify="right")
    for line in data["lines"]:
        numbers = (line[name] for name in ("calls", "refused", "elements", "differing", "bits"))
        table.add_row(line["dtype"], line["axis"], line["output"], *(f"{n:,}" for n in numbers),
                      style="red" if line["differing"] else "")  # fmt: skip
    console.print(table)
    for refusal in {(r["axis"], r["reason"]): r for r in data["refusals"]}.values():
        where = f"{refusal['dtype']}, {refusal['axis']}: {refusal['what']}"
        console.print(f"refused {where}: {refusal['reason']}", markup=False, highlight=False)
    for case in data["smallest"]:
        console.print(smallest(case), markup=False, highlight=False)
    words = "no bit differs" if data["passed"] else "a row has other bits in another batch"
    console.print(words, style="green" if data["passed"] else "red")


def smallest(case: dict[str, Any]) -> str:
    """One failing case in words."""
    operands = ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in case["shapes"].items())
    row = f"row {case['row']}" if case["row"] >= 0 else "the sum over the rows"
    first, second = (_batch(batch) for batch in case["batches"])
    return (
        f"smallest failing case, {case['dtype']}, {case['axis']}: {operands}\n"
        f"  {case['output']} of {row}, element {case['element']}:\n"
        f"  {case['values'][0]} in {first}\n"
        f"  {case['values'][1]} in {second}\n"
        f"  rows of {case['made_from']['shape']}, seed {case['made_from']['seed']}"
    )


def _batch(batch: dict[str, Any]) -> str:
    rows = [str(row) for row in batch["rows"]]
    shown = ", ".join(rows if len(rows) <= 12 else [*rows[:6], "..", *rows[-6:]])
    parts = [f"a batch of {len(rows)} row{'s' * (len(rows) != 1)} ({shown})"]
    if "operand" in batch:
        parts.append(f"{batch['operand']} with strides: {batch['strides']}")
    if "other" in batch:
        parts.append(batch["other"])
    if "threads" in batch:
        parts.append(f"{batch['threads']} thread{'s' * (batch['threads'] != 1)}")
    return ", ".join(parts)
