"""Read the machine code of the CUDA kernels: no local memory, 16-byte accesses, arithmetic as written, no
floats added atomically.

    python tools/check_cuda_code.py build/release/src/cuda/libsamebits_cuda.a

Exit status 1 and one line per problem; 77 when there is no cuobjdump (of the CUDA toolkit or the triton
package).
"""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

# Elements that one lane of these kernels computes, in so many bodies: with and without the clamp, and of the
# last tile of a row.
TILE, BODIES = 64, {"logp_forward_tile": 2, "logp_forward_pairs": 3}
# Per element: t, r and five steps of the polynomial are fma; z - m_b and t - magic are additions. Each lane
# of the contract adds four terms, the first of which is a move: three additions per four elements.
FFMA, FADD = 7 * TILE, 2 * TILE + 3 * TILE // 4
# k that product_fma_tile takes before it fetches more.
PRODUCT_STEPS = 16
# The kernels with warps of several roles hold a tile in 192 of 240 registers, and keep some values of the
# copying warp, which has 24, and of the epilogues in local memory; never among the tensor-core steps.
SM90_SPILLS = 80
# What the ends of a row may add: exponentials of blocks, divisions, the fixed point.
SLACK = 200


def cuobjdump() -> str | None:
    beside = list(Path(sys.prefix).glob("lib/python*/site-packages/triton/backends/nvidia/bin/cuobjdump"))
    usual = Path("/usr/local/cuda/bin/cuobjdump")
    found = shutil.which("cuobjdump") or next((str(p) for p in [usual, *beside] if p.is_file()), None)
    return found


def kernels(dump: str):
    """(architecture, mangled name, instructions) of every function."""
    arch, name, code = "", "", []
    for line in dump.splitlines():
        if match := re.match(r"\s*arch = (sm_\w+)", line):
            arch = match[1]
        elif match := re.match(r"\s*Function : (\S+)", line):
            if code:
                yield name[0], name[1], code
            name, code = (arch, match[1]), []
        elif match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", line):
            code.append(match[1])
    if code:
        yield name[0], name[1], code


def problems(arch: str, name: str, code: list[str]) -> list[str]:
    ops = [op.split(".")[0] for op in code]
    count = Counter(ops)
    allowed = SM90_SPILLS if "sm90_product" in name else 0
    found = [
        f"{op} {count[op]} times, at most {allowed} expected: local memory"
        for op in ("LDL", "STL")
        if count[op] > allowed
    ]

    # By their own instruction, or in a loop of compare-and-swap, as in shared memory; only integers may be.
    atomics = {op for op in code if re.match(r"(RED|ATOM)[A-Z]*\.(.*\.)?(B?F16|F32|F64|CAST?)\b", op)}
    found += [f"{op}: a sum whose order depends on timing" for op in sorted(atomics)]

    def needs(pattern: str, what: str) -> None:
        if not any(re.match(pattern, op) for op in code):
            found.append(f"no {what}")

    if bodies := next((n for kernel, n in BODIES.items() if kernel in name), 0):
        needs(r"LDGSTS\.\S*128", "16-byte copy to shared memory")
        needs(r"LDS\.128|LDS\.U\.128", "16-byte load from shared memory")
        scaled, entropy = (flag == "1" for flag in re.search(r"Lb([01])ELb([01])", name).groups())
        ffma = bodies * (FFMA + (TILE if entropy else 0))
        if not ffma <= count["FFMA"] <= ffma + SLACK:
            found.append(f"FFMA {count['FFMA']} times, {ffma} to {ffma + SLACK} expected")
        if count["FADD"] < bodies * FADD:
            found.append(f"FADD {count['FADD']} times, at least {bodies * FADD} expected: some were fused")
        if scaled and count["FMUL"] < bodies * TILE:
            found.append(
                f"FMUL {count['FMUL']} times, at least {bodies * TILE} expected: the temperature was fused"
            )
    if "logp_forward_few" in name and count["FFMA"]:  # without clusters there is nothing
        needs(r"LDG\.\S*128|UBLKCP", "16-byte load, or copy by the copy engine")
        entropy = re.search(r"Lb[01]ELb([01])", name)[1] == "1"
        elements = 16 if "logp_forward_fewIf" in name else 2 * 32  # fp32 is always clamped
        ffma = (7 + entropy) * elements
        if not ffma <= count["FFMA"] <= ffma + SLACK:
            found.append(f"FFMA {count['FFMA']} times, {ffma} to {ffma + SLACK} expected")
    if "logp_forward_spread" in name:
        needs(r"LDG\.\S*128", "16-byte load")
        entropy = re.search(r"Lb[01]ELb([01])", name)[1] == "1"
        # Two units under way, always clamped; the compiler may write them again for the end of a row.
        ffma = (7 + entropy) * 2 * 16
        if not ffma <= count["FFMA"] <= 2 * ffma + SLACK:
            found.append(f"FFMA {count['FFMA']} times, {ffma} to {2 * ffma + SLACK} expected")
    if "logp_backward_tile" in name:
        needs(r"LDG\.\S*128", "16-byte load")
        needs(r"STG\.\S*128", "16-byte store")
    if "logp_backward_bulk" in name and count["FFMA"]:  # before SM90 there is nothing
        needs(r"UBLKCP", "copy by the copy engine")
        needs(r"LDS\.128|LDS\.U\.128", "16-byte load from shared memory")
        needs(r"STS\.128", "16-byte store to shared memory")
    if "sm90_product" in name:
        needs(r"UTMALDG", "copy by the tensor copy engine")
        steps = [i for i, op in enumerate(ops) if op == "HGMMA"]
        if not steps:
            found.append("no tensor-core step of a warpgroup")
        elif {"LDL", "STL"} & set(ops[steps[0] : steps[-1]]):
            found.append("local memory among the tensor-core steps")
    if "product_mma_tile" in name:
        needs(r"HMMA\.16816\.F32", "tensor-core step of 16 products")
        needs(r"LDSM", "matrix load from shared memory")
        needs(r"LDGSTS\.\S*128", "16-byte copy to shared memory")
    for kind, op, chains in (("If", "FFMA", 64), ("Id", "DFMA", 16)):
        if f"product_fma_tile{kind}" in name and count[op] != PRODUCT_STEPS * chains:
            found.append(f"{op} {count[op]} times, {PRODUCT_STEPS * chains} expected: one of each step")
    return [f"{arch} {name}: {problem}" for problem in found]


def main() -> int:
    tool = cuobjdump()
    if tool is None:
        print("machine code was not read: no cuobjdump")
        return 77
    dump = subprocess.run([tool, "-sass", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    all_kernels = list(kernels(dump))
    found = [line for kernel in all_kernels for line in problems(*kernel)]
    print("\n".join(found))
    architectures = sorted({arch for arch, _, _ in all_kernels})
    print(f"{len(all_kernels)} kernels for {', '.join(architectures)}, {len(found)} problems")
    return 1 if found or not all_kernels else 0


if __name__ == "__main__":
    sys.exit(main())
