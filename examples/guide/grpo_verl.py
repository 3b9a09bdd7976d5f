"""Snippets of docs/grpo.md: log-probs and policy loss of verl by samebits."""

# --8<-- [start:logp]
import torch
import verl.utils.experimental.torch_functional as fused

import samebits as sb


class SamebitsLinearForPPO(torch.nn.Module):
    """In place of verl's FusedLinearForPPO: the same arguments, the same two results."""

    def forward(self, hidden_states, vocab_weights, input_ids, temperature=1.0):
        result = sb.linear_logp(
            hidden_states, vocab_weights, input_ids, temperature=temperature, return_entropy=True
        )
        return result.logp, result.entropy


fused.FusedLinearForPPO = SamebitsLinearForPPO  # its users import it when they run
# --8<-- [end:logp]

# --8<-- [start:loss]
from verl.trainer.ppo.core_algos import register_policy_loss  # noqa: E402


@register_policy_loss("samebits")
def samebits_policy_loss(
    old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None,
    rollout_is_weights=None,
):  # fmt: skip
    """Clipped ratios, reduced with one set of bits: "token-mean" over the tokens of the global batch."""
    if loss_agg_mode != "token-mean" or rollout_is_weights is not None:
        raise NotImplementedError("samebits: loss_agg_mode=token-mean without rollout weights only")
    low = config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low
    high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    terms = sb.rl.clipped_ratio_loss(log_prob, old_log_prob, advantages, low=low, high=high)
    mask, batch = response_mask.bool(), config.global_batch_info
    tokens = batch.get("batch_num_tokens") or mask.sum()
    loss = sb.masked_sum(terms, mask) / tokens * batch.get("dp_size", 1)
    ratio = sb.rl.ratio(log_prob.detach(), old_log_prob)
    return loss, {"actor/ratio_not_one": float((ratio != 1)[mask].sum())}


# --8<-- [end:loss]
