"""The wiring of docs/grpo.md, with stand-ins for the parts of TRL and verl that it touches."""

import runpy
import sys
import types
from pathlib import Path

import pytest
import torch

import samebits as sb
from support import assert_same_bits

GUIDE = Path(__file__).resolve().parents[2] / "examples" / "guide"
VOCAB, HIDDEN = 50, 16


class Trainer:
    """What SamebitsGRPOTrainer uses of trl.GRPOTrainer 1.16."""

    temperature, beta, epsilon_low, epsilon_high, current_gradient_accumulation_steps = 0.8, 0.04, 0.2, 0.2, 2

    def __init__(self):
        self.accelerator = types.SimpleNamespace(unwrap_model=lambda model: model)


@pytest.fixture
def trainer(monkeypatch):
    """A trainer of the guide's class."""
    monkeypatch.setitem(sys.modules, "trl", types.SimpleNamespace(GRPOTrainer=Trainer))
    return runpy.run_path(str(GUIDE / "grpo_trl.py"))["SamebitsGRPOTrainer"]()


@pytest.fixture
def model():
    """An embedding, as transformers' base models are called, and an LM head."""
    weight, embedding = torch.randn(VOCAB, HIDDEN).requires_grad_(), torch.randn(VOCAB, HIDDEN)

    def base_model(input_ids, attention_mask, use_cache):
        return types.SimpleNamespace(last_hidden_state=torch.tanh(embedding[input_ids]))

    head = types.SimpleNamespace(weight=weight, bias=None)
    return types.SimpleNamespace(base_model=base_model, lm_head=head)


def batch(width):
    """Three completions of 4, 0 and 2 tokens behind prompts of 3, padded to `width`."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([4, 0, 2])
    completions = torch.randint(0, VOCAB, (3, 4), generator=generator)
    mask = torch.arange(width) < lengths[:, None]
    padded = torch.zeros(3, width, dtype=torch.int64)
    padded[:, :4] = completions
    old = -torch.rand(3, 4, generator=generator) - 3
    wide = torch.zeros(3, width)
    wide[:, :4] = old
    wide = wide * mask
    return {
        "prompt_ids": torch.randint(0, VOCAB, (3, 3), generator=generator),
        "prompt_mask": torch.ones(3, 3, dtype=torch.int64),
        "completion_ids": padded * mask,
        "completion_mask": mask.long(),
        "advantages": torch.tensor([1.0, 0.5, -1.0]),
        "old_per_token_logps": wide,
        "ref_per_token_logps": wide - 0.1 * mask,
    }


def test_trl_gets_log_probs_whose_bits_do_not_depend_on_chunks(trainer, model):
    inputs = batch(4)
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    whole, entropies, aux = trainer._get_per_token_logps_and_entropies(
        model, ids, mask, 4, compute_entropy=True, pixel_values=None
    )
    assert aux is None and entropies.shape == whole.shape == (3, 4)
    for size in (1, 2):
        parts, none, _ = trainer._get_per_token_logps_and_entropies(model, ids, mask, 4, size)
        assert none is None
        assert_same_bits(parts, whole)
    hidden = model.base_model(ids[:1, -5:-1], mask, False).last_hidden_state
    alone = sb.linear_logp(hidden, model.lm_head.weight, ids[:1, -4:], temperature=0.8)
    assert_same_bits(whole[:1], alone)
    assert (whole[1] == 0).all()
    with pytest.raises(NotImplementedError):
        trainer._get_per_token_logps_and_entropies(model, ids, mask, 4, pixel_values=hidden)


def test_trl_gets_a_loss_whose_bits_do_not_depend_on_padding(trainer, model):
    found = []
    for width in (4, 9):
        loss = trainer._compute_loss(model, batch(width))
        found.append((loss.detach(), *torch.autograd.grad(loss, model.lm_head.weight)))
    assert found[0][0] != 0
    for narrow, wide in zip(*found, strict=True):
        assert_same_bits(wide, narrow)


@pytest.fixture
def verl(monkeypatch):
    """Stand-ins for the modules of verl that the guide touches, after it ran."""
    losses = {}

    def register_policy_loss(name):
        return lambda function: losses.setdefault(name, function)

    fused = types.ModuleType("verl.utils.experimental.torch_functional")
    algorithms = types.ModuleType("verl.trainer.ppo.core_algos")
    algorithms.register_policy_loss = register_policy_loss
    modules = {fused.__name__: fused, algorithms.__name__: algorithms}
    for name in list(modules):
        while "." in name:
            name, _, _ = name.rpartition(".")
            modules.setdefault(name, types.ModuleType(name))
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    runpy.run_path(str(GUIDE / "grpo_verl.py"))
    return types.SimpleNamespace(linear=fused.FusedLinearForPPO, loss=losses["samebits"])


def test_verl_gets_both_results_of_its_fused_head(verl):
    hidden, weight = torch.randn(1, 7, HIDDEN), torch.randn(VOCAB, HIDDEN)
    ids = torch.randint(0, VOCAB, (1, 7), dtype=torch.int32)
    logp, entropy = verl.linear().forward(
        hidden_states=hidden, vocab_weights=weight, input_ids=ids, temperature=0.9
    )
    expected = sb.linear_logp(hidden, weight, ids, temperature=0.9, return_entropy=True)
    assert_same_bits(logp, expected.logp)
    assert_same_bits(entropy, expected.entropy)


def test_verl_gets_a_policy_loss(verl):
    config = types.SimpleNamespace(
        clip_ratio=0.2, clip_ratio_low=None, clip_ratio_high=0.28, global_batch_info={}
    )
    old, mask = -torch.rand(2, 5), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    logp = (old + 0.1).requires_grad_()
    advantages = torch.randn(2, 5)
    loss, metrics = verl.loss(
        old_log_prob=old, log_prob=logp, advantages=advantages, response_mask=mask, config=config
    )
    assert metrics == {"actor/ratio_not_one": 8.0}
    terms = sb.rl.clipped_ratio_loss(logp, old, advantages, high=0.28)
    assert_same_bits(loss, sb.masked_sum(terms, mask.bool()) / 8)
    config.global_batch_info = {"dp_size": 2, "batch_num_tokens": 40, "global_batch_size": None}
    shared, _ = verl.loss(old, logp, advantages, mask, "token-mean", config)
    assert_same_bits(shared, sb.masked_sum(terms, mask.bool()) / 40 * 2)
    with pytest.raises(NotImplementedError):
        verl.loss(old, logp, advantages, mask, "seq-mean-token-sum", config)
