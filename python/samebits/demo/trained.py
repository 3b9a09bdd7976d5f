"""A policy trained on the spot."""

import torch
from torch import Tensor

from samebits.demo.language_model import LanguageModel, train
from samebits.demo.text import Tokenizer, read_text
from samebits.demo.threads import torch_threads

MAX_VOCAB = 16384
PROMPT_TOKENS = 12
MAX_SECONDS = 45.0  # of training, on slow machines


class TrainedPolicy:
    """The small model; prompts are passages of its text."""

    threads = 1  # its products are too small for more

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, ids: Tensor):
        self.model, self.tokenizer, self.ids = model, tokenizer, ids
        self.head_weight = model.head_weight

    def prompts(self, batch: int, generator) -> Tensor:
        starts = torch.randint(self.ids.numel() - PROMPT_TOKENS, (batch, 1), generator=generator)
        return self.ids[starts + torch.arange(PROMPT_TOKENS)]

    def advance(self, ids: Tensor, state) -> tuple[Tensor, Tensor]:
        hidden, state = self.model(ids, state)
        return hidden[:, -1], state

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids)


def train_policy(options, generator, stages) -> tuple[TrainedPolicy, str]:
    """The policy, and words for what it is."""
    text, source = read_text(options.text)
    tokenizer = Tokenizer(text, MAX_VOCAB)
    ids = torch.tensor(tokenizer.encode(text))
    model = LanguageModel(tokenizer.vocab, options.hidden)
    with (
        torch_threads(TrainedPolicy.threads),
        stages.stage("training a language model", options.steps) as tick,
    ):
        train(
            model,
            ids,
            steps=options.steps,
            max_seconds=MAX_SECONDS,
            generator=generator,
            progress=lambda loss: tick(note=f"loss {loss:.2f}"),
        )
    return TrainedPolicy(model, tokenizer, ids), f"GRU trained on {source}"
