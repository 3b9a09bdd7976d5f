"""Cost of a call: the Python front at one short row, and one decode row from Python and from C++."""

import argparse
import json
import subprocess
from pathlib import Path

import torch
from timing import interleaved, machine, save

import samebits as sb

OPS = torch.ops.samebits


def overhead() -> dict:
    """Microseconds of a call with one row of 128 logits, where nearly all is overhead."""
    torch.set_num_threads(2)
    logits, targets, out = torch.randn(1, 128), torch.tensor([3]), torch.empty(1)
    leaf, upstream = logits.clone().requires_grad_(), torch.ones(1)

    def peer(x):
        return x.log_softmax(-1).gather(-1, targets.unsqueeze(-1))

    def quiet(function):
        with torch.no_grad():
            return function()

    calls = {
        "torch.empty(1)": lambda: torch.empty(1),
        "operator without arguments": lambda: OPS.version.default(),
        "operator logp": lambda: OPS.logp.default(logits, targets),
        "sb.logp": lambda: sb.logp(logits, targets),
        "sb.logp under no_grad": lambda: quiet(lambda: sb.logp(leaf, targets)),
        "sb.logp, temperature": lambda: sb.logp(logits, targets, temperature=0.7),
        "sb.logp, out": lambda: sb.logp(logits, targets, out=out),
        "sb.logp, lse and entropy": lambda: sb.logp(logits, targets, return_lse=True, return_entropy=True),
        "sb.logp, recording": lambda: sb.logp(leaf, targets),
        "sb.logp, forward and backward": lambda: torch.autograd.grad(sb.logp(leaf, targets), leaf, upstream),
        "log_softmax + gather": lambda: peer(logits),
        "log_softmax + gather, recording": lambda: peer(leaf),
        "log_softmax + gather, forward and backward": lambda: torch.autograd.grad(
            peer(leaf), leaf, upstream.view(1, 1)
        ),
    }
    taken = interleaved(calls, rounds=200, calls=40)
    return {name: {key: value * 1e6 for key, value in entry.items()} for name, entry in taken.items()}


def decode() -> dict:
    """Microseconds of one row of 131072 logits from Python."""
    targets = torch.tensor([77])
    results = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for dtype in (torch.float32, torch.bfloat16):
            logits = torch.randn(1, 131072).to(dtype)
            name = f"{str(dtype).removeprefix('torch.')}, {threads} threads"
            calls = {"samebits": lambda x=logits: sb.logp(x, targets)}
            taken = interleaved(calls, rounds=300, calls=10)["samebits"]
            results[name] = {key: value * 1e6 for key, value in taken.items()}
    return results


def decode_cpp(program: Path) -> dict:
    """The same from C++, by the benchmark program."""
    command = [program, "--benchmark_filter=^logp_forward/rows:1/", "--benchmark_format=json",
               "--benchmark_repetitions=9", "--benchmark_min_time=0.1"]  # fmt: skip
    runs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[
        "benchmarks"
    ]
    results = {}
    for run in runs:
        if run.get("run_type") == "iteration":
            options = dict(part.split(":") for part in run["name"].split("/") if ":" in part)
            dtype = "bfloat16" if options["bf16"] == "1" else "float32"
            results.setdefault(f"{dtype}, {options['threads']} threads", []).append(run["real_time"])
    return {
        name: {"median": sorted(times)[len(times) // 2], "best": min(times), "worst": max(times)}
        for name, times in results.items()
    }


def show(title: str, entries: dict) -> None:
    print(f"\n{title}, us{'':>{max(0, 46 - len(title))}}best   median")
    for name, entry in entries.items():
        print(f"  {name:<44}{entry['best']:>8.2f}{entry['median']:>9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpp", type=Path, help="samebits_bench, to time decode rows from C++ too")
    parser.add_argument("--json", type=Path, default=Path("bench/results/call_overhead.json"))
    arguments = parser.parse_args()
    result = {"machine": machine(), "samebits": sb.__version__, "overhead_us": overhead()}
    show("one row of 128 logits, two threads", result["overhead_us"])
    result["decode_python_us"] = decode()
    show("one row of 131072 logits from Python", result["decode_python_us"])
    if arguments.cpp:
        result["decode_cpp_us"] = decode_cpp(arguments.cpp)
        show("one row of 131072 logits from C++", result["decode_cpp_us"])
    save(arguments.json, result)


if __name__ == "__main__":
    main()
