"""One tensor of a checkpoint in safetensors files, sharded or not, without reading the others."""

import json
from pathlib import Path

import torch
from torch import Tensor


def load_tensor(path: str | Path, name: str, device: str | torch.device) -> Tensor:
    """The tensor `name` of a safetensors file, or of a folder with one or with an index of shards.

    Raises:
        FileNotFoundError: no such file, or a folder without safetensors.
        KeyError: no tensor of that name; the message lists those that are there.
        ImportError: safetensors is not installed.
    """
    try:
        from safetensors import safe_open
    except ImportError:
        raise ImportError("reading a checkpoint needs safetensors: pip install safetensors") from None
    file = _shard(Path(path), name)
    with safe_open(file, framework="pt", device=str(device)) as opened:
        if name not in opened.keys():
            raise _missing(file, name, opened.keys())
        return opened.get_tensor(name)


def load_config(path: str | Path) -> dict:
    """The config.json of a checkpoint folder; empty where there is none."""
    file = Path(path) / "config.json"
    return json.loads(file.read_text()) if file.is_file() else {}


def _shard(path: Path, name: str) -> Path:
    if path.is_file():
        return path
    index, single = path / "model.safetensors.index.json", path / "model.safetensors"
    if index.is_file():
        shards = json.loads(index.read_text())["weight_map"]
        if name not in shards:
            raise _missing(index, name, shards)
        return path / shards[name]
    if single.is_file():
        return single
    raise FileNotFoundError(
        f"path: is {str(path)!r}; must be a safetensors file, or a folder with model.safetensors or "
        "model.safetensors.index.json"
    )


def _missing(file: Path, name: str, names) -> KeyError:
    near = [other for other in names if other.endswith((".embeddings.weight", "lm_head.weight"))]
    found = ", ".join(sorted(near or names)[:4]) or "nothing"
    return KeyError(f"{file}: has no tensor {name!r}; it has {found}")
