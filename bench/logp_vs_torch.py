"""Speed of samebits.logp against PyTorch on a CPU: same run, same tensors, contestants taking turns.

Forward and forward + backward; float32 and bfloat16; one and two threads. Rates count one read of the logits
(forward), and one read and one write more (backward). Prints a table and writes JSON.
"""

import argparse
from pathlib import Path

import torch
from timing import interleaved, machine, save
from torch.nn.functional import cross_entropy

import samebits as sb

PEERS = ("log_softmax", "cross_entropy")


def log_softmax(logits, targets):
    """What most trainers do: float32 log_softmax, then gather."""
    return torch.log_softmax(logits.float(), -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def forward_calls(logits, targets):
    return {
        "samebits": lambda: sb.logp(logits, targets),
        "log_softmax": lambda: log_softmax(logits, targets),
        "cross_entropy": lambda: cross_entropy(logits, targets, reduction="none"),
    }


def training_calls(logits, targets):
    leaf = logits.detach().requires_grad_()

    def step(function):
        values = function(leaf, targets)
        return lambda: torch.autograd.grad(function(leaf, targets), leaf, upstream.to(values.dtype))

    upstream = torch.randn(len(targets))
    return {
        "samebits": step(sb.logp),
        "log_softmax": step(log_softmax),
        "cross_entropy": step(lambda x, t: cross_entropy(x, t, reduction="none")),
    }


def read_calls(logits):
    """Two ways to read the same bytes; the faster one is taken for the machine's rate."""
    words = logits.view(torch.int32)
    return {
        "read_sum": lambda: torch.sum(words, dtype=torch.int32),
        "read_max": lambda: torch.amax(words),
    }


def measure(rows: int, vocab: int, dtype: torch.dtype, threads: int, seconds: float) -> list[dict]:
    torch.set_num_threads(threads)
    logits = (torch.randn(rows, vocab, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    targets = torch.randint(0, vocab, (rows,), generator=torch.Generator().manual_seed(2))
    entries = []
    for kind, calls, traffic in (("forward", forward_calls, 1), ("forward+backward", training_calls, 3)):
        contestants = calls(logits, targets) | (read_calls(logits) if kind == "forward" else {})
        pace = sum(entry["best"] for entry in interleaved(contestants, 1).values())
        taken = interleaved(contestants, max(5, min(300, int(seconds / pace))))
        size = logits.numel() * logits.element_size()
        entry = {"kind": kind, "rows": rows, "vocab": vocab, "dtype": str(dtype).removeprefix("torch."),
                 "threads": threads, "seconds": taken}  # fmt: skip
        ours = taken["samebits"]["median"]
        entry["gigabytes_per_second"] = traffic * size / ours / 1e9
        entry["times_faster_than"] = {peer: taken[peer]["median"] / ours for peer in PEERS}
        if kind == "forward":
            rate = size / min(taken["read_sum"]["median"], taken["read_max"]["median"]) / 1e9
        entry["read_gigabytes_per_second"] = rate
        entries.append(entry)
    return entries


def show(entry: dict) -> None:
    ours = entry["seconds"]["samebits"]["median"]
    faster = entry["times_faster_than"]
    print(
        f"{entry['kind']:<17}{entry['dtype']:<9}{entry['threads']:>3}{entry['rows']:>6}"
        f"{ours * 1e3:>11.3f}{entry['gigabytes_per_second']:>8.2f}{entry['read_gigabytes_per_second']:>8.2f}"
        f"{faster['log_softmax']:>13.2f}{faster['cross_entropy']:>15.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--vocab", type=int, default=131072)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0, help="time spent on each line of the table")
    parser.add_argument("--json", type=Path, default=Path("bench/results/logp_vs_torch.json"))
    arguments = parser.parse_args()
    print(machine())
    print(f"vocabulary {arguments.vocab}; GB/s of ours and of a plain read; times faster than each peer")
    print(f"{'':<17}{'dtype':<9}{'thr':>3}{'rows':>6}{'ours ms':>11}{'GB/s':>8}{'read':>8}"
          f"{'log_softmax':>13}{'cross_entropy':>15}")  # fmt: skip
    entries = []
    for dtype in (torch.float32, torch.bfloat16):
        for threads in arguments.threads:
            for rows in arguments.rows:
                for entry in measure(rows, arguments.vocab, dtype, threads, arguments.seconds):
                    show(entry)
                    entries.append(entry)
    save(arguments.json, {"machine": machine(), "samebits": sb.__version__, "entries": entries})


if __name__ == "__main__":
    main()
