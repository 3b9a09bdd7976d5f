"""`python -m samebits.demo`: options, progress, the order of things."""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import torch

import samebits
from samebits.demo.errors import DemoError, need
from samebits.demo.threads import torch_threads


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m samebits.demo",
        description="Samples from a language model token by token, recomputes the log-probs as a trainer "
        "would, and counts those whose bits differ: with plain PyTorch, and with samebits.",
    )
    parser.add_argument(
        "--text", metavar="FILE", help="UTF-8 text to learn from (default: Python's language reference)"
    )
    parser.add_argument(
        "--model", metavar="PATH", help="a Hugging Face causal LM folder or a GGUF file, instead of training"
    )
    parser.add_argument("--seed", type=int, default=0, help="of training and sampling (default 0)")
    parser.add_argument(
        "--out", metavar="DIR", default="demo-out", help="for demo.png and demo.json (default demo-out/)"
    )
    parser.add_argument("--json", action="store_true", help="print demo.json instead of the table")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="of sampling and of the log-probs (default 0.8)"
    )
    parser.add_argument("--batches", metavar="N,N,...", help="sequences of each wave of requests")
    parser.add_argument("--max-new", type=int, metavar="N", help="longest sequence sampled")
    parser.add_argument("--steps", type=int, default=400, help="training steps (default 400)")
    parser.add_argument(
        "--hidden", type=int, default=256, help="hidden size of the model trained (default 256)"
    )
    options = parser.parse_args(arguments)
    batches, max_new = ("1,1,2,3,5", 16) if options.model else ("1," * 12 + "2,2,3,4,5,6,8,12,16", 64)
    try:
        options.batches = [int(size) for size in (options.batches or batches).split(",")]
    except ValueError:
        parser.error(f"--batches {options.batches}: numbers separated by commas are wanted")
    options.max_new = options.max_new or max_new
    for name, value in (
        ("--batches", min(options.batches)),
        ("--steps", options.steps),
        ("--hidden", options.hidden),
    ):
        if value < 1:
            parser.error(f"{name} must be at least 1")
    if options.max_new < 2:
        parser.error("--max-new must be at least 2")
    if not 0.01 <= options.temperature <= 100:
        parser.error(f"--temperature {options.temperature}: from 0.01 to 100 is meant")
    if options.text and options.model:
        parser.error("--text is what to train on; --model brings its own training")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 as samebits promises, 1 a samebits bit differed, 2 the demo could not run."""
    options = parse(arguments)
    try:
        need("rich", "rich", "the table")
        need("matplotlib", "matplotlib", "the picture")
        return run(options)
    except DemoError as error:
        print(f"samebits.demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("samebits.demo: interrupted", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from samebits.demo import figure, report, rollout, trainer
    from samebits.demo.heads import PlainHead, SamebitsHead
    from samebits.demo.progress import Stages

    started = time.monotonic()
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"--out {out}: {error.strerror}") from None
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    console = Console(stderr=options.json)

    with Stages(console) as stages:
        policy, model_name = make_policy(options, generator, stages)
        vocab, hidden = policy.head_weight.shape
        heads = [
            PlainHead(policy.head_weight, torch.bfloat16, options.temperature),
            PlainHead(policy.head_weight, torch.float32, options.temperature),
            SamebitsHead(policy.head_weight, options.temperature),
        ]
        generator.manual_seed(options.seed)  # the same requests, however long training was
        wanted = rollout.requests(options.batches, options.max_new, generator)
        sampling = stages.stage("sampling, token by token", sum(map(sum, wanted)))
        with torch_threads(policy.threads), sampling as tick:
            draw = partial(heads[0].draw, generator=generator)
            recorded = rollout.sample(policy, heads, wanted, draw, generator, tick)
        by_head = {}
        with stages.stage("recomputing as a trainer", len(heads) * len(trainer.PASSES)) as tick:
            for head in heads:
                by_head[head.name] = trainer.recompute(head, recorded, generator, tick)

    tokens = recorded.targets.numel()
    findings = report.as_data(by_head, recorded.logp)
    data = {
        "model": model_name,
        "vocab": vocab,
        "hidden": hidden,
        "tokens": tokens,
        "sequences": len(recorded.lengths),
        "rollout_batches": options.batches,
        "temperature": options.temperature,
        "seed": options.seed,
        "rollout_threads": policy.threads,
        "trainer_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "samebits": samebits.__version__,
        "starts_from": report.SHARED,
        "heads": findings,
        "seconds": round(time.monotonic() - started, 1),
    }
    subtitle = (
        f"{tokens:,} tokens sampled at batch sizes 1 to {max(options.batches)} · {model_name} · V = {vocab:,}"
    )
    figure.draw(out / "demo.png", by_head, subtitle)
    (out / "demo.json").write_text(json.dumps(data, indent=2) + "\n")
    if options.json:
        print(json.dumps(data, indent=2))
    else:
        report.print_example(console, recorded.example)
        report.print_table(console, findings, tokens, {head.name: head.own_formula for head in heads})
        console.print(
            f"[dim]{out / 'demo.png'} and {out / 'demo.json'} written; {time.monotonic() - started:.0f} s."
        )
    return 1 if findings[-1]["differing_in_any"] else 0


def make_policy(options: argparse.Namespace, generator, stages):
    if options.model:
        from samebits.demo.pretrained import PretrainedPolicy

        policy = PretrainedPolicy(options.model, stages)
        return policy, policy.name
    from samebits.demo.trained import train_policy

    return train_policy(options, generator, stages)
