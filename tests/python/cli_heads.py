"""Files of hidden states and LM heads for the tests of the ``samebits`` command."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file


def hidden_states(path, dtype=torch.bfloat16, shape=(3, 5), size=64, vocab=300):
    """Writes a file of random hidden states and targets; returns both."""
    generator = torch.Generator().manual_seed(11)
    hidden = torch.randn(*shape, size, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(0, vocab, shape, generator=generator)
    save_file({"hidden": hidden, "targets": targets}, path)
    return hidden, targets


def head(path, dtype=torch.bfloat16, size=64, vocab=300):
    """Writes a file with weight and bias of a head beside another tensor; returns weight and bias."""
    generator = torch.Generator().manual_seed(12)
    weight = (torch.randn(vocab, size, generator=generator, dtype=torch.float64) * 0.3).to(dtype)
    bias = torch.randn(vocab, generator=generator, dtype=torch.float64).to(dtype)
    tensors = {"lm_head.weight": weight, "lm_head.bias": bias, "model.norm.weight": bias[:7].clone()}
    save_file(tensors, path)
    return weight, bias


def checkpoint(folder: Path, weight: torch.Tensor, name="lm_head.weight") -> Path:
    """A sharded checkpoint as training frameworks write it; returns its index."""
    folder.mkdir()
    save_file({"model.embed_tokens.weight": weight[:3].clone()}, folder / "model-00001-of-00002.safetensors")
    save_file({name: weight}, folder / "model-00002-of-00002.safetensors")
    places = {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        name: "model-00002-of-00002.safetensors",
    }
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return index


def unaligned(path, name: str, tensor: torch.Tensor) -> None:
    """A bfloat16 tensor that begins at an odd byte of its file."""
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    header = {
        "odd": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        name: {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [1, 1 + len(data)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"x" + data)
