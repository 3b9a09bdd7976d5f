"""A policy from a Hugging Face causal LM folder, or from a GGUF file."""

import inspect
from pathlib import Path

import torch
from torch import Tensor

from samebits.demo.errors import DemoError, need
from samebits.demo.text import read_text

PROMPT_TOKENS = 16
PIP = "transformers gguf accelerate"


class PretrainedPolicy:
    """A transformers model in fp32; prompts are passages of the Python language reference."""

    def __init__(self, path: str, stages):
        location = Path(path)
        if not location.exists():
            raise DemoError(f"--model {path}: no such file or folder")
        if location.is_dir() and not (location / "config.json").exists():
            raise DemoError(f"--model {path}: no config.json in this folder; a GGUF file is named itself")
        if location.is_file() and not is_gguf(location):
            raise DemoError(f"--model {path}: not a GGUF file, nor a Hugging Face folder")
        transformers = need("transformers", PIP, "--model")
        where = {"pretrained_model_name_or_path": str(location)}
        if location.is_file():
            need("gguf", PIP, "--model with a GGUF file")
            need("accelerate", PIP, "--model with a GGUF file")
            where = {"pretrained_model_name_or_path": str(location.parent), "gguf_file": location.name}
        stages.say(f"loading {location.name}: a minute or so")
        self.threads = torch.get_num_threads()
        self.tokenizer = load(transformers.AutoTokenizer, path, **where)
        self.model = load(transformers.AutoModelForCausalLM, path, dtype=torch.float32, **where).eval()
        arguments = inspect.signature(self.model.base_model.forward).parameters
        # transformers renamed the argument, and the field of the result with it.
        self.cache = "cache" if "cache" in arguments else "past_key_values"
        self.name = location.stem if location.is_file() else location.name
        self.head_weight = find_head(self.model, path)
        self.ids = torch.tensor(self.tokenizer(read_text(None)[0])["input_ids"])

    def prompts(self, batch: int, generator) -> Tensor:
        starts = torch.randint(self.ids.numel() - PROMPT_TOKENS, (batch, 1), generator=generator)
        passages = self.ids[starts + torch.arange(PROMPT_TOKENS)]
        begin = self.tokenizer.bos_token_id
        return passages if begin is None else torch.cat([torch.full((batch, 1), begin), passages], 1)

    def advance(self, ids: Tensor, state) -> tuple[Tensor, object]:
        result = self.model.base_model(input_ids=ids, use_cache=True, **{self.cache: state})
        return result.last_hidden_state[:, -1], result[self.cache]

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)


def is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def load(factory, path: str, **where):
    try:
        return factory.from_pretrained(**where, local_files_only=True)
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        raise DemoError(f"--model {path}: transformers cannot load it: {error}") from error


@torch.inference_mode()
def find_head(model, path: str) -> Tensor:
    """The LM head's weight [vocab, hidden], once it is sure that the model's logits are hidden @ weight.T."""
    head = model.get_output_embeddings()
    if head is None:
        raise DemoError(f"--model {path}: the model has no LM head")
    ids = torch.arange(8)[None] + 100
    hidden = model.base_model(input_ids=ids).last_hidden_state
    weight = head.weight.detach().float()
    if not torch.allclose(hidden @ weight.T, model(input_ids=ids).logits, rtol=1e-3, atol=1e-3):
        raise DemoError(
            f"--model {path}: its logits are not hidden @ weight.T (a bias, a scale or a soft cap follows), "
            "which is what this demo compares"
        )
    return weight
