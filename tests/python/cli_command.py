"""Runs the ``samebits`` command that belongs to the package under test."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import samebits


def command_path() -> Path:
    """``SAMEBITS_COMMAND``, the build tree the package was loaded from, or the installed wheel."""
    if given := os.environ.get("SAMEBITS_COMMAND"):
        return Path(given)
    places = [Path(samebits.__file__).parent.parent.parent / "src" / "cli" / "samebits"]
    if spec := importlib.util.find_spec("samebits_native"):
        places.append(Path(spec.origin).parent / "bin" / "samebits")
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(f"no samebits command at {', '.join(map(str, places))}; set SAMEBITS_COMMAND")


def start(*arguments, **options) -> subprocess.Popen:
    """The command, running."""
    return subprocess.Popen(
        [str(command_path()), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(*arguments, status: int = 0, **options) -> subprocess.CompletedProcess:
    """The command, finished with that exit status and no traceback of a sanitizer or the like on stderr."""
    with start(*arguments, **options) as process:
        out, err = process.communicate(timeout=300)
    result = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    assert result.returncode == status, f"{result.args}: status {result.returncode}\n{out}{err}"
    return result


def error_of(*arguments, **options) -> str:
    """The one error line of a command that must refuse, with exit status 2 and nothing on stdout."""
    result = run(*arguments, status=2, **options)
    assert result.stdout == ""
    assert result.stderr.startswith("samebits: error: ") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def read_record(path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file, by the reference reader."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def example(path, dtype=torch.float32, shape=(3, 5), vocab=1000) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes a file of random logits and targets; returns both."""
    generator = torch.Generator().manual_seed(7)
    logits = (torch.randn(*shape, vocab, generator=generator, dtype=torch.float64) * 4).to(dtype)
    targets = torch.randint(0, vocab, shape, generator=generator)
    save_file({"logits": logits, "targets": targets}, path)
    return logits, targets


def flip_bit(path, tensor: str, element: int, bit: int = 0) -> None:
    """Flips one bit of one element of a file written by this command."""
    contents = bytearray(Path(path).read_bytes())
    header = int.from_bytes(contents[:8], "little")
    entry = json.loads(contents[8 : 8 + header])[tensor]
    size = {"F32": 4, "F64": 8, "I64": 8}[entry["dtype"]]
    at = 8 + header + entry["data_offsets"][0] + element * size + bit // 8
    contents[at] ^= 1 << bit % 8
    Path(path).write_bytes(contents)
