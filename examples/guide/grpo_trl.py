"""Snippet of docs/grpo.md: log-probs and loss of TRL's GRPOTrainer by samebits."""

# --8<-- [start:trainer]
import torch
from trl import GRPOTrainer

import samebits as sb


class SamebitsGRPOTrainer(GRPOTrainer):
    """For one process, a text model with an LM head, and loss_type="grpo"."""

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None,
        compute_entropy=False, compute_aux_loss=False, **images,
    ):  # fmt: skip
        """TRL asks here for the old, the reference and the train log-probs."""
        if compute_aux_loss or any(value is not None for value in images.values()):
            raise NotImplementedError("samebits: text models without an auxiliary loss only")
        inner = self.accelerator.unwrap_model(model)
        size = batch_size or len(input_ids)
        values, entropies = [], []
        for start in range(0, len(input_ids), size):
            ids, mask = (t[start : start + size] for t in (input_ids, attention_mask))
            hidden = inner.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            hidden = hidden[:, :-1][:, -logits_to_keep:]  # the last one predicts what comes next
            targets = ids.masked_fill(mask == 0, -100)[:, -logits_to_keep:]  # padding costs nothing
            result = sb.linear_logp(
                hidden, inner.lm_head.weight, targets, bias=inner.lm_head.bias,
                temperature=self.temperature, return_entropy=compute_entropy,
            )  # fmt: skip
            values.append(result.logp if compute_entropy else result)
            entropies.append(result.entropy if compute_entropy else None)
        return torch.cat(values), torch.cat(entropies) if compute_entropy else None, None

    def _compute_loss(self, model, inputs):
        """The loss with the same bits whatever the padding; without TRL's metrics."""
        mask = inputs["completion_mask"].bool()
        logp, _, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1),
            mask.shape[1],
        )
        old = inputs.get("old_per_token_logps")
        if old is None:
            old = logp.detach()  # TRL's own choice when every sample is used once
        advantages = inputs["advantages"][:, None].expand_as(logp)
        terms = sb.rl.clipped_ratio_loss(logp, old, advantages, low=self.epsilon_low, high=self.epsilon_high)
        if self.beta:
            terms = terms + self.beta * sb.rl.kl_k3(logp, inputs["ref_per_token_logps"])
        rows = torch.arange(len(mask), device=mask.device)[:, None].expand_as(mask)
        per_sequence = sb.masked_mean(terms, mask, segments=rows, count=len(mask), on_empty="zero")
        return sb.masked_mean(per_sequence) / self.current_gradient_accumulation_steps


# --8<-- [end:trainer]
