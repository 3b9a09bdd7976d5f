"""Tables of a CPU, from what `make bench` writes into bench/results/."""

from pathlib import Path

from cells import load, table

MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3}


def cpu_logp(root: Path) -> str:
    """logp against PyTorch on the CPU of bench/results."""
    found = load(root / "bench" / "results" / "logp.json")
    if found is None:
        return "`bench/results/logp.json` has not been recorded."
    cases = {(case["mode"], *_cell_of(case)): case for case in found["cases"]}
    rows = [
        [
            *cell, _median(case, "samebits") * 1e3, _rate(case, _median(case, "samebits")),
            _rate(case, case["ceilings"]["read"]["median"]), _faster(case), _faster(cases[("fwdbwd", *cell)]),
        ]
        for (mode, *cell), case in cases.items()
        if mode == "fwd"
    ]  # fmt: skip
    ratio = "times as fast as `log_softmax` / `cross_entropy`"
    head = [
        "dtype",
        "threads",
        "rows",
        "forward, ms",
        "GB/s",
        "plain read, GB/s",
        f"forward, {ratio}",
        "both",
    ]
    return _machine(found) + table(head, rows)


def _cell_of(case: dict) -> tuple:
    return case["dtype"], case["threads"], case["tokens"]


def _median(case: dict, name: str) -> float:
    return next(one["seconds"]["median"] for one in case["contestants"] if one["name"] == name)


def _rate(case: dict, seconds: float) -> float:
    """GB/s, where one read of the logits takes that long."""
    return case["work"] / seconds / 1e9


def _faster(case: dict) -> str:
    ours = _median(case, "samebits")
    others = (_median(case, f"torch {name}") / ours for name in ("log_softmax", "cross_entropy"))
    return " / ".join(f"{ratio:.1f}" for ratio in others)


def cpu_overhead(root: Path) -> str:
    """What a call costs on one short row, and one row of a vocabulary from Python and from C++."""
    folder = root / "bench" / "results"
    missing = [name for name in ("call", "logp", "cpp") if not (folder / f"{name}.json").is_file()]
    if missing:
        return f"`bench/results/{missing[0]}.json` has not been recorded."
    found, of_rows, native = (load(folder / f"{name}.json") for name in ("call", "logp", "cpp"))
    names = dict.fromkeys(one["name"] for case in found["cases"] for one in case["contestants"])
    times = {
        (case["mode"], one["name"]): one["seconds"]["median"] * 1e6
        for case in found["cases"]
        for one in case["contestants"]
    }
    calls = [[name, times.get(("fwd", name)), times.get(("fwdbwd", name))] for name in names]
    one_row = [
        [case["dtype"], case["threads"], _median(case, "samebits") * 1e6, _native_us(native, case)]
        for case in of_rows["cases"]
        if case["mode"] == "fwd" and case["tokens"] == 1
    ]
    return _machine(found) + "\n\n".join(
        [
            table(["one row of 128 logits, us", "forward", "forward and backward"], calls),
            table(["one row of 131072 logits, us", "threads", "Python", "C++"], one_row),
        ]
    )


def _native_us(native: dict, case: dict) -> float | None:
    """The same row by `samebits_bench`."""
    wanted = f"logp_forward/rows:1/bf16:{int(case['dtype'] == 'bf16')}/threads:{case['threads']}/"
    for line in native["benchmarks"]:
        if line["name"].startswith(wanted):
            return line["real_time"] * MICROSECONDS[line["time_unit"]]
    return None


def cpu_kernels(root: Path) -> str:
    """The library's own entry points, from C++: every line of `samebits_bench`."""
    native = load(root / "bench" / "results" / "cpp.json")
    if native is None:
        return "`bench/results/cpp.json` has not been recorded."
    rows = [
        [
            f"`{line['name'].removesuffix('/real_time')}`",
            line["real_time"] * MICROSECONDS[line["time_unit"]],
            line.get("GFLOP/s", line.get("GMAC/s")) or "",
            line["bytes_per_second"] / 1e9 if "bytes_per_second" in line else "",
        ]
        for line in native["benchmarks"]
    ]
    return table(["call", "us", "GFLOP/s (`tc16`: multiply-adds, G/s)", "GB/s"], rows)


def cpu_terms(root: Path) -> str:
    """Sums and loss terms beside torch's."""
    found = load(root / "bench" / "results" / "terms.json")
    if found is None:
        return "`bench/results/terms.json` has not been recorded."
    rows = []
    for case in found["cases"]:
        ours = _median(case, "samebits") * 1e3
        others = [one["seconds"]["median"] * 1e3 for one in case["contestants"] if one["name"] != "samebits"]
        rows.append(
            [f"`{case['op']}`", case["dtype"], case["mode"], case["tokens"], ours, min(others, default=None)]
        )
    return _machine(found) + table(["call", "dtype", "pass", "values", "ms", "torch, ms"], rows)


def _machine(found: dict) -> str:
    machine = found["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores"
    return f"{where}, torch {machine['torch']}, samebits {machine['samebits']}.\n\n"
