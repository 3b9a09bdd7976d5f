"""Strict GRPO: every log-prob comes from samebits.linear_logp; in every layout the loss has the same bits.

python examples/grpo.py                  # some seconds on a CPU
python examples/grpo.py --device cuda    # the same bits, with a run on the CPU beside it
python examples/grpo.py --plant torch    # log-probs from elsewhere: strict mode stops with status 1

A small byte-level language model learns this project's README, then takes steps of GRPO: it samples
groups of completions, rewards the share of their bytes that stand in words of the text, and trains on
clipped ratios and the k3 estimate of KL. The run is repeated in other layouts and the losses are compared
bit for bit.

Invariant are hidden states, log-probs, loss, gradients and the optimizer's step, for tokens padded or
packed in one order, any chunks of the passes without gradients, any memory budget, any number of threads,
and on a GPU as on a CPU. Not invariant: training on micro-batches adds up gradients of parts, which is
another sum; so is another order of the sequences. And sb.linear and sb.embedding count every row in their
gradients: padding is left out before the first layer, as packed training does. The head and the reductions
take it as it is.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from grpo_model import VOCAB, WINDOW, Adam, Model, warm_up
from grpo_rollout import (
    GROUP,
    LONGEST,
    PROMPT,
    LogProbs,
    Rollout,
    StrictError,
    require_samebits,
    sample,
    score,
    score_by_torch,
)
from torch import Tensor

import samebits as sb

README = Path(__file__).resolve().parent.parent / "README.md"
KL_WEIGHT = 0.04
RATE = 5e-4


@dataclass(frozen=True)
class Layout:
    """How a run lays its work out; nothing of it may change a bit."""

    name: str
    packed: bool = False
    chunk: int | None = None  # rows at a time, in passes without gradients
    memory: int | str = "auto"
    threads: int | None = None
    device: str | None = None


LAYOUTS = (
    Layout("padded"),
    Layout("padded, again"),
    Layout("packed", packed=True),
    Layout("padded, chunks of 7 rows", chunk=7),
    Layout("packed, chunks of 100 rows", packed=True, chunk=100),
    Layout("packed, no memory for backward", packed=True, memory="recompute"),
    Layout("padded, 64 KiB for backward", memory=1 << 16),
    Layout("padded, three threads", threads=3),
)


@dataclass(frozen=True)
class Step:
    """One optimisation step, as it is printed and written."""

    iteration: int
    inner: int
    loss: str  # bits, in hex
    loss_value: float
    kl: float
    reward: float
    tokens: int
    ratios_not_one: int
    train_logp_source: str


@torch.no_grad()
def score_in_chunks(scorer, model: Model, windows: Tensor, targets: Tensor, layout: Layout) -> LogProbs:
    """Log-probs without gradients, `layout.chunk` rows at a time."""
    rows, ids = windows.reshape(-1, WINDOW), targets.reshape(-1)
    size = layout.chunk or len(ids)
    parts = [
        scorer(model.hidden(rows[i : i + size]), model.head(), ids[i : i + size], layout.memory)
        for i in range(0, len(ids), size)
    ]
    return replace(parts[0], values=torch.cat([part.values for part in parts]).view(targets.shape))


def optimise(policy, reference, rollout: Rollout, layout: Layout, optimizer, options, at) -> Step:
    """One step of GRPO on a rollout; `at` is (iteration, inner step)."""
    inside = rollout.targets >= 0
    sequence = torch.arange(len(inside), device=inside.device)[:, None].expand(inside.shape)
    fields = (rollout.windows, rollout.targets, rollout.old.values, sequence)
    windows, targets, old_values, sequence = (f[inside] for f in fields) if layout.packed else fields
    scorer = {"old": None, "reference": score, "train": score}
    if options.plant:
        scorer[options.plant_at] = score_by_torch
    old = replace(rollout.old, values=old_values)
    if scorer["old"]:
        old = score_in_chunks(scorer["old"], policy, windows, targets, layout)
    ref = score_in_chunks(scorer["reference"], reference, windows, targets, layout)
    valid = targets >= 0
    # Layers below the head add up gradients over every row they see, so they see tokens and no padding.
    rows = policy.hidden(windows[valid])
    hidden = rows.new_zeros(*targets.shape, rows.shape[-1]).index_put((valid,), rows)
    train = scorer["train"](hidden, policy.head(), targets, layout.memory)
    logp = train.values
    not_one = int((sb.rl.ratio(logp.detach(), old.values) != 1)[valid].sum())
    if options.strict:
        require_samebits(old=old, reference=ref, train=train)
        if at[1] == 1 and not_one:
            raise StrictError(
                f"ratio: is not 1 for {not_one} of {int(valid.sum())} tokens; must be 1 at first"
            )

    kl = sb.rl.kl_k3(logp, ref.values)
    terms = sb.rl.clipped_ratio_loss(logp, old.values, rollout.advantages[sequence]) + KL_WEIGHT * kl
    loss = sb.masked_mean(sb.masked_mean(terms, valid, segments=sequence, count=len(inside)))
    optimizer.step(loss)
    return Step(
        *at, hex_bits(loss), loss.item(), sb.masked_mean(kl.detach(), valid).item(), rollout.reward,
        int(valid.sum()), not_one, train.source,
    )  # fmt: skip


def train(start: Model, text: bytes, layout: Layout, options, tick) -> tuple[list[Step], Model, dict]:
    """A run from the weights of `start`: its steps, what it learned, the provenance of its log-probs."""
    policy, reference = start.to(layout.device), start.to(layout.device)
    optimizer = Adam(list(policy.weights.values()), RATE)
    generator, words = torch.Generator().manual_seed(2), set(re.findall("[a-z]+", text.decode().lower()))
    data = torch.tensor(list(text))
    steps = []
    for iteration in range(1, options.iterations + 1):
        at = torch.randint(len(text) - PROMPT, (options.prompts, 1), generator=generator)
        prompts = data[at + torch.arange(PROMPT)].repeat_interleave(GROUP, 0).to(layout.device)
        uniform = torch.rand(len(prompts), LONGEST, VOCAB, generator=generator, dtype=torch.float64)
        # On a grid, so that another machine's log cannot move it.
        noise = ((-torch.log(-torch.log(uniform + 2**-60))).clamp(max=40) * 4096).round() / 4096
        rollout = sample(policy, prompts, noise.float().to(layout.device), words)
        for inner in range(1, options.inner + 1):
            steps.append(optimise(policy, reference, rollout, layout, optimizer, options, (iteration, inner)))
            tick()
    return steps, policy, rollout.old.provenance


@contextmanager
def using_threads(count: int | None):
    """torch with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def hex_bits(value: Tensor) -> str:
    """The bits of one float32."""
    return f"0x{int(value.detach().view(torch.int32)) & 0xFFFFFFFF:08x}"


def differing(a: Model, b: Model) -> int:
    """How many weights have other bits."""
    pairs = zip(a.weights.values(), b.weights.values(), strict=True)
    return sum(
        int((x.detach().cpu().view(torch.int32) != y.detach().cpu().view(torch.int32)).sum())
        for x, y in pairs
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; exits with status 2 where it makes no sense."""
    first, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    positive = {"type": int, "metavar": "N"}
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:INDEX")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="of the products (float32)"
    )
    parser.add_argument("--text", type=Path, default=README, help="UTF-8 text to learn (the README)")
    parser.add_argument(
        "--warm-up", default=150, help="steps of next-byte prediction first (150)", **positive
    )
    parser.add_argument("--iterations", default=3, help="rollouts, at least 1 (3)", **positive)
    parser.add_argument("--inner", default=2, help="optimisation steps on each, at least 1 (2)", **positive)
    parser.add_argument(
        "--prompts", default=6, help=f"of a rollout, {GROUP} completions each (6)", **positive
    )
    parser.add_argument(
        "--plant", choices=("torch",), help="take log-probs from there; strict mode must stop"
    )
    parser.add_argument(
        "--plant-at", choices=("old", "reference", "train"), default="train", help="which of them (train)"
    )
    parser.add_argument(
        "--no-strict", dest="strict", action="store_false", help="go on, and show what it does to the ratios"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write steps and comparisons there")
    options = parser.parse_args(arguments)
    for name, least in (("warm_up", 0), ("iterations", 1), ("inner", 1), ("prompts", 1)):
        if getattr(options, name) < least:
            option = name.replace("_", "-")
            parser.error(f"--{option}: is {getattr(options, name)}; must be at least {least}")
    try:
        refused = sb.plan("linear_logp", dtype=getattr(torch, options.dtype), device=options.device).refusals
    except (RuntimeError, ValueError) as error:
        refused = (str(error).splitlines()[0],)
    if refused:
        parser.error(f"--device {options.device}: {'; '.join(refused)}")
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"--json {options.json}: its folder does not exist")
    try:
        options.data = options.text.read_bytes()
        options.data.decode()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"--text {options.text}: {error}")
    if len(options.data) < 1000:
        parser.error(f"--text {options.text}: has {len(options.data)} bytes; must have at least 1000")
    return options


@contextmanager
def progress(total: int):
    """A bar on stderr where rich is installed and someone looks; yields what advances it."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield lambda: None
        return
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("optimisation steps", total=total)
        yield lambda: bar.advance(task)


def compare(options, report: dict) -> None:
    """Warm up, run every layout, print and fill `report`."""
    layouts = [replace(layout, device=options.device) for layout in LAYOUTS]
    if torch.device(options.device).type == "cuda":
        layouts.append(Layout("packed, on the CPU", packed=True, device="cpu"))
    with progress(options.warm_up + len(layouts) * options.iterations * options.inner) as tick:
        start = Model(options.device, getattr(torch, options.dtype))
        text = torch.tensor(list(options.data), device=options.device)
        report["warm_up_loss"] = warm_up(start, text, options.warm_up, tick)
        print(f"warm-up: {options.warm_up} steps, {report['warm_up_loss']:.4f} nats per byte")
        first = None
        for layout in layouts:
            began = time.perf_counter()
            with using_threads(layout.threads):
                steps, model, provenance = train(start, options.data, layout, options, tick)
            if first is None:
                first = (steps, model)
                report |= {"provenance": provenance, "steps": [asdict(step) for step in steps]}
                show(steps, provenance)
            losses = [step.loss for step in steps]
            report["layouts"].append({
                **asdict(layout),
                "losses": losses,
                "differing_losses": sum(a.loss != b for a, b in zip(first[0], losses, strict=True)),
                "differing_weights": differing(first[1], model),
                "weights": sum(w.numel() for w in model.weights.values()),
                "seconds": round(time.perf_counter() - began, 3),
            })  # fmt: skip
            row = report["layouts"][-1]
            print(
                f"{layout.name:32} differing losses: {row['differing_losses']} of {len(losses)}, "
                f"weights: {row['differing_weights']:,} of {row['weights']:,}"
            )


def show(steps: list[Step], provenance: dict) -> None:
    """The steps of the first run."""
    promise = f"{provenance['contract']}, {provenance['level']}"
    computed = f"{provenance['backend']} on {provenance['device']}"
    for step in steps:
        print(
            f"step {step.iteration}.{step.inner}: loss {step.loss} ({step.loss_value:+.6f}), "
            f"kl {step.kl:.2e}, reward {step.reward:.3f}, "
            f"ratios not 1: {step.ratios_not_one} of {step.tokens}"
        )
        print(f"  train_logp_source: {step.train_logp_source} ({promise}, {computed})")


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: every layout had the same bits; 1: one had not, or strict mode stopped."""
    options = parse(arguments)
    report = {
        "schema": 1, "passed": False, "reason": "", "strict": options.strict, "planted": options.plant,
        "planted_at": options.plant_at if options.plant else None, "device": options.device,
        "dtype": options.dtype, "samebits": sb.__version__, "torch": torch.__version__,
        "text": {"name": options.text.name, "sha256": hashlib.sha256(options.data).hexdigest()},
        "reduction": "sum.v1", "loss_terms": "exp.v1", "steps": [], "layouts": [],
    }  # fmt: skip
    try:
        compare(options, report)
        unequal = [x["name"] for x in report["layouts"] if x["differing_losses"] or x["differing_weights"]]
        report["reason"] = f"other bits: {'; '.join(unequal)}" if unequal else ""
    except StrictError as error:
        report["reason"] = f"strict: {error}"
    report["passed"] = not report["reason"]
    print("passed: every layout has the same bits" if report["passed"] else f"failed: {report['reason']}")
    if options.json:
        unfinished = options.json.with_name(options.json.name + ".part")
        unfinished.write_text(json.dumps(report, indent=1) + "\n")
        os.replace(unfinished, options.json)
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
