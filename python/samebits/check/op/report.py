"""What the check of operators found, as tables."""

_WORDS = {"forward": "{}", "gradient": "grad of {}"}
_NUMBERS = ("max_abs", "max_ulp", "tolerance", "share", "floor")


def print_report(console, data: dict) -> None:
    """One table for each operator and dtype, one line for each result; or what `--list` asks for."""
    if "operators" in data:
        _print_list(console, data)
        return
    for result in data["results"]:
        console.print(_table(result, f"{data['candidate']}, profile {data['profile']}"))
    lines = [(result, line) for result in data["results"] for line in result["lines"]]
    failed = [_failure(result, line) for result, line in lines if not line["passed"]]
    for words in failed:
        console.print(words, markup=False, style="red")
    for skipped in data["skipped"]:
        console.print(f"not run: {skipped['op']}: {skipped['reason']}", markup=False, style="yellow")
    verdict = f"[red]{len(failed):,} failed" if failed else "[green]all passed"
    console.print(f"[dim]{_CAPTION}")
    console.print(f"{len(lines):,} judgments, {verdict}[/]; {data['seconds']:.1f} s, {data['device']}.")


def _table(result: dict, by: str):
    from rich import box
    from rich.table import Table

    sizes = ", ".join(f"{name} {size:,}" for name, size in result["shape"].items())
    title = f"[bold]{result['op']}, {result['dtype']}[/]: {by}\n[dim]{sizes}"
    table = Table(title=title, title_style="", title_justify="left", box=box.SIMPLE, collapse_padding=True)
    table.add_column("", no_wrap=True)
    for name in ("error", "ulp", "tolerance", "share", "floor", "bits", ""):
        table.add_column(name, justify="right", no_wrap=True)
    rows: dict[str, dict[str, dict]] = {}
    for line in result["lines"]:
        kind, judgment = line["judgment"].split("_")
        rows.setdefault(_WORDS[kind].format(line["output"]), {})[judgment] = line
    for name, pair in rows.items():
        accuracy, bits = pair.get("accuracy", {}), pair.get("invariance", {})
        passed = all(line["passed"] for line in pair.values())
        numbers = [_number(accuracy[n]) if accuracy else "" for n in _NUMBERS]
        differing = f"{bits['differing']:,}" if bits else ""
        table.add_row(name, *numbers, differing, "[green]passed" if passed else "[bold red]failed")
    return table


def _number(value: float | None) -> str:
    return "not finite" if value is None else "0" if value == 0 else f"{value:.2g}"


def _failure(result: dict, line: dict) -> str:
    kind, judgment = line["judgment"].split("_")
    name = _WORDS[kind].format(line["output"])
    place = f"failed: {result['op']}, {result['dtype']}, {judgment} of {name}: "
    if "differing" in line:
        broken = [trial for trial in line["trials"] if trial["differing"]]
        return place + "; ".join(
            f"{t['trial']}: {t['differing']:,} of {t['elements']:,} differ, first {t['first']}"
            for t in broken
        )
    worst = line["worst"]
    return (
        f"{place}at {worst['index']} computed {worst['computed']}, exact {worst['exact']}, "
        f"tolerance {line['tolerance']}; {line['cell']}"
    )


def _print_list(console, data: dict) -> None:
    say = console.print
    for entry in data["operators"]:
        say(f"[bold]{entry['op']}[/]  {entry['call']}")
        for name in ("dtypes", "outputs", "gradients", "candidates"):
            say(f"  {name:<11}{', '.join(entry[name])}", highlight=False)
    for backend in data["backends"]:
        if not backend["available"]:
            say(f"{backend['name']} cannot run here: {backend['reason']}", markup=False, style="yellow")
    say(f"\n[bold]profile {data['profile']}[/] of {', '.join(data['profiles'])}: {data['about']}")
    before = None
    for cell in data["cells"]:
        if before != (head := (cell["judgment"], cell["class"], cell["output"])):
            say(f"[bold]{head[0].replace('_', ' ')}, {head[1]}, {head[2]}", highlight=False)
            before = head
        say(f"  {cell['dtype']:<5}{_formula(cell)}", markup=False, highlight=False)
    say("[dim]Where the numbers come from: --list --json, and docs/tolerance.md.")


def _formula(cell: dict) -> str:
    if "compare" in cell:
        return cell["compare"]
    terms = [f"({text}) {size}" for size, text in cell["terms"].items()]
    numbers = [f"{cell['atol']:.3g}", *([f"{cell['rtol']:.3g} abs(exact)"] if cell["rtol"] else [])]
    return " + ".join(numbers + terms)


_CAPTION = (
    "Error: the largest, against binary64. Share: the largest error over tolerance of any element; "
    "tolerance: that element's. Floor: the largest error that rounding the exact values makes. Bits: "
    "elements that differ in any trial (repeat, split, permutation, ..). docs/tolerance.md derives the "
    "tolerances."
)
