"""A small recurrent language model in plain PyTorch, and its training."""

import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from samebits.demo.errors import DemoError


class LanguageModel(nn.Module):
    """Embedding, GRU, and an LM head that is the embedding's weight: trained while one waits."""

    def __init__(self, vocab: int, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        nn.init.normal_(self.embedding.weight, std=0.08)

    @property
    def head_weight(self) -> Tensor:  # [vocab, hidden]
        return self.embedding.weight.detach()

    def forward(self, ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """ids [batch, length] -> what the LM head reads, [batch, length, hidden], and the state."""
        hidden, state = self.gru(self.dropout(self.embedding(ids)), state)
        return self.dropout(hidden), state


def train(model: LanguageModel, ids: Tensor, *, steps: int, max_seconds: float, generator, progress) -> float:
    """Fits `model` to the token stream `ids`; returns the mean loss of the last steps, in nats per token."""
    batch, length, rate = 8, 32, 6e-3
    if ids.numel() < 4 * length:
        raise DemoError(f"the text has {ids.numel()} tokens; at least {4 * length} are needed")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    window = torch.arange(length + 1)
    started, recent = time.monotonic(), []
    model.train()
    for step in range(steps):
        if time.monotonic() - started > max_seconds:
            break
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 20) * (1 - 0.95 * step / steps)
        starts = torch.randint(ids.numel() - length, (batch, 1), generator=generator)
        chunk = ids[starts + window]
        hidden, _ = model(chunk[:, :-1])
        loss = F.cross_entropy((hidden @ model.embedding.weight.T).flatten(0, 1), chunk[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = [*recent[-19:], loss.item()]
        progress(sum(recent) / len(recent))
    model.eval()
    return sum(recent) / len(recent)
