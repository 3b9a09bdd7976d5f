"""Golden vectors: outputs recorded as hex in the repository, computed again from inputs made again."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

import samebits as sb
from samebits.report.case import Case
from samebits.report.context import DTYPES, Context, judged, skipped
from samebits.report.integers import LONG_NAMES, NUMBERED, Integers, fnv1a, hex_words, raw, rounded

TITLE = "Golden vectors"
ABOUT = (
    "Recorded bits of every contract (tests/golden): rows of every kind, fused multiply-adds from exact "
    "rational arithmetic, products recorded on the tensor cores of a GPU, gradients of heads and embeddings."
)
HEAD_CONTRACTS = {
    ("auto", "fp32"): "fma.v1+row.v1",
    ("auto", "fp64"): "fma64.v1+row64.v1",
    ("auto", "fp16"): "tc16.v1+row.v1",
    ("auto", "bf16"): "tc16.v1+row.v1",
    ("fma", "fp16"): "fma.v1+row.v1",
    ("fma", "bf16"): "fma.v1+row.v1",
}
_ACCUMULATED = 0.75  # what accumulators hold before


def cases(context: Context) -> Iterator[Case]:
    """One case for each recorded one."""
    if context.root is None:
        yield skipped("tests/golden is in the repository, and this is not run in a checkout", case="all")
        return
    folder = context.root / "tests" / "golden"
    makers = {"fma.json": fma, "row.json": row, "head.json": head, "embedding.json": embedding, "tc16": tc16}
    with context.stage("golden vectors", len(makers)) as tick:
        for name, maker in makers.items():
            tick(note=name)
            yield from maker(folder, context)


def recorded(folder: Path, name: str) -> dict:
    """One file, its cases by name."""
    return json.loads((folder / name).read_text())


def compare(found: dict[str, str], expected: dict, **labels) -> Case:
    """Passed when every recorded text is found again."""
    wrong = [name for name, text in found.items() if expected[name] != text]
    return judged(
        not wrong, f"other bits than recorded: {', '.join(wrong)}", value=len(wrong), tolerance=0,
        unit="differing fields", **labels,
    )  # fmt: skip


def fma(folder: Path, context: Context) -> Iterator[Case]:
    """Products of fma.v1 and fma64.v1."""
    for case in recorded(folder, "fma.json")["cases"]:
        rows, columns, depth = case["rows"], case["columns"], case["depth"]
        words = Integers(case["seed"]).words((rows + columns) * depth)
        significands = (words & 0xFFFFFF) - 0x800000
        exponents = ((words >> 56) & 15) - 35
        values = significands.double() * torch.pow(2.0, exponents.double())
        dtype = "fp64" if case["contract"] == "fma64.v1" else "fp32"
        a, b = values.to(context.device, DTYPES[dtype]).split([rows * depth, depth * columns])
        out = sb.matmul(a.view(rows, depth), b.view(depth, columns))
        yield compare(
            {"out": hex_words(out)}, case, case=f"{rows} x {columns} x {depth}", operator="matmul",
            dtype=dtype, method=case["contract"],
        )  # fmt: skip


def row(folder: Path, context: Context) -> Iterator[Case]:
    """logp, lse, entropy and gradients of row.v1 and row64.v1."""
    file = recorded(folder, "row.json")
    by_name = {case["name"]: case for case in file["cases"]}
    for short, number in zip(NUMBERED, range(4), strict=True):
        for suffix, options in (("", {}), ("_in_fp64", {"precision": "fp64"})):
            if suffix and short != "bf16":
                continue
            last = LONG_NAMES[short] + suffix
            kinds = kinds_of_rows(number, NUMBERED[short])
            runs = {"kinds_of_rows": (kinds, options)}
            runs["temperature_and_padding"] = kinds, {**options, "temperature": 0.7, "vocab_size": 257}
            for vocab in (1, 2, 129, 1000) if context.quick else (1, 2, 129, 1000, 131072):
                runs[f"vocab_{vocab}"] = long_rows(vocab, NUMBERED[short]), options
            for name, (inputs, asked) in runs.items():
                case = by_name[f"{name}_{last}"]
                yield compare(
                    statistics(inputs, asked, context.device), case, case=f"{name}{suffix}", operator="logp",
                    dtype=short, method=case["contract"],
                )  # fmt: skip
    if context.quick:
        yield skipped("--quick leaves out rows of 131072 columns", case="vocab_131072", operator="logp")
    for case in file["row_sums"]:
        _, columns, name = case["name"].split("_")
        short = next(short for short, long in LONG_NAMES.items() if long == name)
        values = rounded(Integers(0x5C3 + int(columns)).normal(int(columns)) * 3, NUMBERED[short])
        total = torch.ops.samebits.row_sum(values.view(1, -1).to(context.device))
        yield compare(
            {"sum": hex_words(total)[0]}, case, case=f"row_sum, {columns} columns", operator="logp",
            dtype=short, method=case["contract"],
        )  # fmt: skip


def kinds_of_rows(number: int, dtype: torch.dtype) -> tuple[Tensor, list[int], Tensor]:
    """(logits, targets, upstreams): a row of each kind that has broken a softmax."""
    integers = Integers(0x901D0 + number)
    values, targets = torch.empty(10, 300, dtype=torch.float64), []
    for at in range(10):
        values[at] = integers.normal(300) * 3
        targets += integers.below(140)
    values[2] = 1.5
    values[3, 140:] = values[4] = -torch.inf
    values[7] = values[8] = torch.arange(300).double() / 16
    values[1, 77], values[5, 200], values[6, 299] = 100, torch.nan, torch.inf
    targets[7:] = [299, 0, 300]
    return rounded(values, dtype), targets, integers.normal(30).view(3, 10)


def long_rows(vocab: int, dtype: torch.dtype) -> tuple[Tensor, list[int], Tensor]:
    """The same for two rows of that length."""
    integers = Integers(0x901D + vocab)
    values = integers.normal(2 * vocab).view(2, vocab) * 4
    targets = integers.below(vocab, 2)
    return rounded(values, dtype), targets, integers.normal(6).view(3, 2)


def statistics(inputs, options: dict, device: str) -> dict[str, str]:
    """What row.json records of a call, as far as the public functions give it."""
    values, targets, upstream = inputs
    logits = values.to(device).requires_grad_()
    ids = torch.tensor(targets, device=device)
    found = sb.logp(logits, ids, return_lse=True, return_entropy=True, **options)
    upstreams = [rounded(line, found.logp.dtype).to(device) for line in upstream]
    (gradient,) = torch.autograd.grad(tuple(found), logits, upstreams)
    texts = {name: " ".join(hex_words(value)) for name, value in found._asdict().items()}
    texts["grad_fnv1a64"] = " ".join(fnv1a(raw(line)) for line in gradient)
    return texts


def sampled(name: str, values: Tensor, step: int) -> dict[str, str]:
    """Digest and every `step`-th element of a tensor."""
    return {f"{name}_fnv1a64": fnv1a(raw(values)), name: " ".join(hex_words(values.flatten()[::step]))}


def head(folder: Path, context: Context) -> Iterator[Case]:
    """Gradients of linear_logp: seven rows, one of them padding and one confident; 300 columns, 3 padding."""
    by_name = {(case["name"], case["contract"]): case for case in recorded(folder, "head.json")["cases"]}
    for short, number in zip(NUMBERED, range(4), strict=True):
        for contract in ("auto", "fma"):
            for entropy in (False, True):
                if (contract, short) not in HEAD_CONTRACTS:
                    continue
                name = LONG_NAMES[short] + (" entropy" if entropy else "")
                case = by_name[name, HEAD_CONTRACTS[contract, short]]
                found = head_gradients(number, NUMBERED[short], contract, entropy, context.device)
                yield compare(
                    found, case, case="gradients" + (" with entropy" if entropy else ""),
                    operator="linear_logp", dtype=short, method=case["contract"],
                )  # fmt: skip


def head_gradients(number: int, dtype, contract: str, entropy: bool, device: str) -> dict[str, str]:
    """What head.json records of a call."""
    integers = Integers(0x4EAD + number)
    hidden = rounded(integers.normal(140), dtype).view(7, 20)
    weight = rounded(integers.normal(6000), dtype).view(300, 20)
    integers.below(300, 7)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    upstreams = [rounded(integers.normal(7), wide)]
    bias = rounded(integers.normal(300), dtype)
    targets = integers.below(297, 7)
    targets[2], targets[6] = -100, targets[5]
    hidden[3] = rounded(3 * weight[targets[3]].double(), dtype)
    upstreams += [rounded(integers.normal(7), wide) for _ in range(1 + entropy)]
    leaves = [tensor.to(device).requires_grad_() for tensor in (hidden, weight, bias)]
    found = sb.linear_logp(
        leaves[0], leaves[1], torch.tensor(targets, device=device), bias=leaves[2], temperature=0.75,
        vocab_size=297, contract=contract, return_lse=True, return_entropy=entropy,
    )  # fmt: skip
    gradients = torch.autograd.grad(tuple(found), leaves, [value.to(device) for value in upstreams])
    texts: dict[str, str] = {}
    for name, gradient in zip(("grad_hidden", "grad_weight", "grad_bias"), gradients, strict=True):
        texts |= sampled(name, gradient, gradient.numel() // 9)
    return texts


def embedding(folder: Path, context: Context) -> Iterator[Case]:
    """Rows and gradients of embeddings: 2600 ids of 7 rows, most of them of one."""
    by_name = {case["name"]: case for case in recorded(folder, "embedding.json")["cases"]}
    for short, number in zip(NUMBERED, range(4), strict=True):
        for accumulate in (False, True):
            case = by_name[LONG_NAMES[short] + (" accumulated" if accumulate else "")]
            found = embedding_texts(number, NUMBERED[short], accumulate, context.device)
            yield compare(
                found, case, case="rows, " + ("accumulated gradient" if accumulate else "gradient"),
                operator="embedding", dtype=short, method=case["contract"],
            )  # fmt: skip


def embedding_texts(number: int, dtype: torch.dtype, accumulate: bool, device: str) -> dict[str, str]:
    """What embedding.json records of a call."""
    integers = Integers(0xE3B + number)
    ids = [integers.below(3 if integers.below(2) == [0] else 7)[0] for _ in range(2600)]
    weight = rounded(integers.normal(42), dtype).view(7, 6).to(device).requires_grad_()
    upstream = rounded(integers.normal(2600 * 6), dtype).view(2600, 6).to(device)
    ids = [one if integers.below(10) == [0] else 4 for one in ids]
    ids[17:19] = -100, 7
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    total = torch.full((7, 6), _ACCUMULATED, dtype=wide, device=device) if accumulate else None
    out = sb.embedding(torch.tensor(ids, device=device), weight, padding_idx=1, grad_accumulator=total)
    out.backward(upstream)
    gradient = weight.grad if total is None else total
    return {"out_fnv1a64": fnv1a(raw(out)), **sampled("grad_weight", gradient, 5)}


def tc16(folder: Path, context: Context) -> Iterator[Case]:
    """Products recorded on the tensor cores of a GPU."""
    for path in sorted(folder.glob("tc16_*.bin")):
        name = path.stem.removeprefix("tc16_").replace("_", " ")
        if name == "steps":
            yield skipped(
                "single steps with any accumulator are no call of an operator; tc16_golden_test checks them",
                case=name, operator="matmul", method="tc16.v1",
            )  # fmt: skip
            continue
        data = path.read_bytes()
        rows, columns, depth, half = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8, 12, 16))
        short = "fp16" if half else "bf16"
        parts, at = [], 20
        for shape, dtype in (
            ((rows, depth), DTYPES[short]),
            ((columns, depth), DTYPES[short]),
            ((rows, columns), torch.float32),
        ):  # fmt: skip
            size = shape[0] * shape[1] * dtype.itemsize
            parts.append(torch.frombuffer(bytearray(data[at : at + size]), dtype=dtype).view(shape))
            at += size
        a, b, expected = parts
        out = sb.matmul(
            a.to(context.device), b.to(context.device).t(), contract="tc16", out_dtype=torch.float32
        )
        words = [value.cpu().view(torch.int32) for value in (out, expected)]
        count = int((words[0] != words[1]).sum())
        yield judged(
            count == 0, f"{count} of {expected.numel()} elements differ", case=name, operator="matmul",
            dtype=short, method="tc16.v1", value=count, tolerance=0, unit="differing elements",
        )  # fmt: skip
