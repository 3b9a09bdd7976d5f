"""One tensor of a checkpoint in safetensors files, sharded or not, without reading the others."""

import json
from pathlib import Path

import torch
from torch import Tensor


def load_tensor(path: str | Path, name: str, device: str | torch.device) -> Tensor:
    """The tensor `name` of a safetensors file, or of a folder with one or with an index of shards.

    Raises:
        FileNotFoundError: no such file, or a folder without safetensors.
        ValueError: a file that is none of its kind.
        KeyError: no tensor of that name; the message lists those that are there.
        ImportError: safetensors is not installed.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError("reading a checkpoint needs safetensors: pip install safetensors") from None
    file = _shard(Path(path), name)
    try:
        with safe_open(file, framework="pt", device=str(device)) as opened:
            if name not in opened.keys():
                raise _missing(file, name, opened.keys())
            return opened.get_tensor(name)
    except SafetensorError as error:
        raise ValueError(f"path: {str(file)!r} is no safetensors file ({error})") from None


def load_config(path: str | Path) -> dict:
    """The config.json of a checkpoint folder, or beside a file of one; empty where there is none.

    Raises:
        ValueError: it holds no JSON object.
    """
    path = Path(path)
    file = (path.parent if path.is_file() else path) / "config.json"
    return _json_object(file) if file.is_file() else {}


def _json_object(file: Path) -> dict:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # of the JSON, or of its encoding
        raise ValueError(f"path: {str(file)!r} is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"path: {str(file)!r} holds a {type(found).__name__}; must be a JSON object")
    return found


def _shard(path: Path, name: str) -> Path:
    if path.is_file():
        return path
    index, single = path / "model.safetensors.index.json", path / "model.safetensors"
    if index.is_file():
        shards = _json_object(index).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
            raise ValueError(f"path: {str(index)!r} has no weight_map of names to files")
        if name not in shards:
            raise _missing(index, name, shards)
        shard = path / shards[name]
        if not shard.is_file():
            raise FileNotFoundError(f"path: {str(shard)!r}, which {index.name} names, is no file")
        return shard
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
