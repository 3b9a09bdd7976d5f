"""The model and the optimizer of examples/grpo.py: small, and each token sees its own window alone."""

from __future__ import annotations

import torch
from torch import Tensor

import samebits as sb

VOCAB, WINDOW, WIDTH, HIDDEN = 256, 12, 16, 64  # bytes; the model reads the last WINDOW of them


class Model:
    """The last WINDOW bytes embedded and mixed, one residual block, an LM head. Weights are float32."""

    def __init__(self, device: str, dtype: torch.dtype):
        generator = torch.Generator().manual_seed(0)
        shapes = {
            "embedding": (VOCAB, WIDTH),
            "mix": (HIDDEN, WINDOW * WIDTH),
            "up": (2 * HIDDEN, HIDDEN),
            "down": (HIDDEN, 2 * HIDDEN),
            "head": (VOCAB, HIDDEN),
        }
        self.dtype = dtype
        self.weights = {
            name: (torch.randn(shape, generator=generator) * shape[1] ** -0.5).to(device).requires_grad_()
            for name, shape in shapes.items()
        }

    def to(self, device: str) -> Model:
        """A model of its own with the same bits."""
        other = object.__new__(Model)
        other.dtype = self.dtype
        other.weights = {
            name: weight.detach().to(device, copy=True).requires_grad_()
            for name, weight in self.weights.items()
        }
        return other

    def head(self) -> Tensor:
        """[VOCAB, HIDDEN], in the dtype of the products."""
        return self.weights["head"].to(self.dtype)

    def hidden(self, windows: Tensor) -> Tensor:
        """windows [..., WINDOW] of bytes, -1 before the beginning -> [..., HIDDEN].

        Between samebits' operators stand torch operators that round once per element. silu and gelu would not
        do: on a CPU torch gives an element other bits near the end of a tensor than in its middle.
        """
        w = {name: weight.to(self.dtype) for name, weight in self.weights.items()}
        x = sb.linear(sb.embedding(windows, w["embedding"], on_invalid="zero").flatten(-2), w["mix"])
        up = torch.relu(sb.linear(x, w["up"]))
        return x + sb.linear(up * up, w["down"])


def root(x: Tensor) -> Tensor:
    """The square root of float32, rounded correctly.

    torch's own is not on every CPU: with MKL one in six is one unit in the last place off. Its float64 root
    errs by 2^-52 or so, and no root of a float32 number is nearer than 2^-50 to a midpoint of two of them
    (whose square has 50 bits), so that rounding it again gives the nearest one.
    """
    return x.double().sqrt().float()


class Adam:
    """Adam in torch operators that round once per element: fused optimizers contract products and sums."""

    def __init__(self, weights: list[Tensor], rate: float):
        self.weights, self.rate, self.steps = weights, rate, 0
        self.first = [torch.zeros_like(w) for w in weights]
        self.second = [torch.zeros_like(w) for w in weights]

    @torch.no_grad()
    def step(self, loss: Tensor) -> None:
        """One step down the gradient of `loss`."""
        gradients = torch.autograd.grad(loss, self.weights)
        self.steps += 1
        size = self.rate / (1 - 0.9**self.steps)
        unbias = 1 / (1 - 0.99**self.steps)
        for weight, g, first, second in zip(self.weights, gradients, self.first, self.second, strict=True):
            first.mul_(0.9).add_(g * 0.1)
            second.mul_(0.99).add_((g * g) * 0.01)
            weight.sub_((first * size) / (root(second * unbias) + 1e-8))


def windows_of(tokens: Tensor) -> Tensor:
    """tokens [B, L] -> [B, L, WINDOW]: what stands before each of them."""
    before = tokens.new_full((tokens.shape[0], WINDOW), -1)
    return torch.cat([before, tokens], 1).unfold(1, WINDOW, 1)[:, :-1]


def warm_up(model: Model, text: Tensor, steps: int, tick) -> float:
    """Next-byte prediction on the text; the last loss, in nats per byte."""
    generator = torch.Generator().manual_seed(1)
    optimizer = Adam(list(model.weights.values()), 5e-3)
    windows, loss = windows_of(text[None])[0], float("nan")
    for _ in range(steps):
        at = torch.randint(len(text), (384,), generator=generator).to(text.device)
        value = -sb.masked_mean(sb.linear_logp(model.hidden(windows[at]), model.head(), text[at]))
        optimizer.step(value)
        loss = value.item()
        tick()
    return loss
