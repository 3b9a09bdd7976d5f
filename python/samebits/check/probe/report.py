"""What ran on each path, as a table."""

from typing import Any


def print_report(console, data: dict[str, Any]) -> None:
    """A line for each path, then what was not promised."""
    from rich.table import Table

    table = Table(title=f"What ran on {data['runtime']['device']}, {data['dtype']}")
    on_gpu = any(path["samebits_kernels"] for path in data["paths"])
    for name in ("operator", "path", "samebits", "torch, on large tensors", "kernels")[: 4 + on_gpu]:
        table.add_column(name)
    for path in data["paths"]:
        operators = ", ".join(f"{name} x{count}" for name, count in path["operators"].items())
        cells = [path["op"], path["path"], operators, ", ".join(path["torch_on_large_tensors"]) or "none"]
        cells += [", ".join(path["samebits_kernels"])] * on_gpu
        table.add_row(*cells, style="red" if path["problems"] else "")
    console.print(table)
    for problem in data["problems"]:
        console.print(f"failed {problem}", markup=False, highlight=False, style="red")
    words = "every path ran what its plan promised" if data["passed"] else "a plan was not kept"
    console.print(words, style="green" if data["passed"] else "red")
