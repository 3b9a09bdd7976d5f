"""Shapes, dtypes and devices of every operator, for torch.compile, meta tensors and FakeTensorMode."""

import torch

from . import _checks, _memory, _options

register = torch.library.register_fake


@register("samebits::logp")
def _(logits, targets, row_temperature=None, rows=None, temperature=1.0, ignore_index=None,
      on_invalid="zero", vocab_size=None, binary64=False, backend="auto"):  # fmt: skip
    _checks.logp(logits, targets, row_temperature, rows)
    return logits.new_empty(targets.shape, dtype=_options.result_dtype(logits, binary64))


@register("samebits::logp_out")
def _(logits, targets, out, row_temperature=None, rows=None, temperature=1.0, ignore_index=None,
      on_invalid="zero", vocab_size=None, binary64=False, backend="auto"):  # fmt: skip
    _checks.logp(logits, targets, row_temperature, rows)


@register("samebits::logp_forward")
def _(logits, targets, lse, entropy, stats, row_temperature=None, rows=None, temperature=1.0,
      ignore_index=None, on_invalid="zero", vocab_size=None, binary64=False, backend="auto"):  # fmt: skip
    _checks.logp(logits, targets, row_temperature, rows)
    dtype = _options.result_dtype(logits, binary64)
    words = (2,) if dtype == torch.float64 else ()
    count = targets.numel() if stats else 0
    return (
        logits.new_empty(targets.shape, dtype=dtype),
        logits.new_empty(targets.shape if lse else (0,), dtype=dtype),
        logits.new_empty(targets.shape if entropy else (0,), dtype=dtype),
        logits.new_empty((count,), dtype=dtype),
        logits.new_empty((count, *words), dtype=torch.int64),
        logits.new_empty((count if entropy else 0, *words), dtype=torch.int64),
    )


@register("samebits::logp_backward")
def _(logits, targets, row_max, row_sum, row_entropy_sum, grad_logp, grad_lse, grad_entropy,
      row_temperature=None, rows=None, temperature=1.0, ignore_index=None, on_invalid="zero",
      vocab_size=None, binary64=False, backend="auto"):  # fmt: skip
    _checks.logp(logits, targets, row_temperature, rows)
    return logits.new_empty(logits.shape)


@register("samebits::probability")
def _(logits, targets, row_max, row_sum, row_temperature=None, rows=None, temperature=1.0, ignore_index=None,
      on_invalid="zero", vocab_size=None, binary64=False, backend="auto"):  # fmt: skip
    _checks.logp(logits, targets, row_temperature, rows)
    return logits.new_empty(logits.shape, dtype=_options.result_dtype(logits, binary64))


@register("samebits::row_sum")
def _(values, backend="auto"):
    _checks.tensor("values", values)
    _checks.device("values", values, values, "values")
    _checks.dtype("values", values, (torch.float32, torch.float64))
    return values.new_empty(values.shape[:-1])


@register("samebits::matmul")
def _(a, b, out_dtype=None, contract="auto", backend="auto", bias=None):
    _checks.operands(("a", "b"), a, b)
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype or a.dtype)


@register("samebits::embedding")
def _(ids, weight, padding_idx=None, on_invalid="nan", backend="auto"):
    _checks.device("ids", ids, weight, "weight")
    return weight.new_empty((*ids.shape, weight.shape[1]))


@register("samebits::embedding_backward")
def _(ids, grad, vocab, padding_idx=None, backend="auto"):
    _checks.device("ids", ids, grad, "grad")
    return grad.new_empty((vocab, grad.shape[-1]))


@register("samebits::embedding_backward_into")
def _(ids, grad, grad_accumulator, padding_idx=None, backend="auto"):
    _checks.device("ids", ids, grad, "grad")


@register("samebits::linear_logp_forward")
def _(hidden, weight, targets, bias, lse, entropy, stats, contract, saved_rows, row_temperature=None,
      rows=None, temperature=1.0, ignore_index=None, on_invalid="zero", vocab_size=None, binary64=False,
      backend="auto"):  # fmt: skip
    _checks.operands(("hidden", "weight"), hidden, weight)
    _checks.leading(targets, hidden, "hidden")
    dtype = _options.result_dtype(hidden, binary64)
    words = (2,) if dtype == torch.float64 else ()
    count = targets.numel() if stats else 0
    return (
        *(hidden.new_empty(targets.shape if asked else (0,), dtype=dtype) for asked in (True, lse, entropy)),
        hidden.new_empty((count,), dtype=dtype),
        hidden.new_empty((count, *words), dtype=torch.int64),
        hidden.new_empty((count if entropy else 0, *words), dtype=torch.int64),
        hidden.new_empty(_memory.saved_shape(saved_rows, hidden, weight, targets, rows, vocab_size)),
    )


def _like_or_empty(operand, asked):
    return operand.new_empty(operand.shape if asked else (0,))


@register("samebits::linear_logp_backward")
def _(hidden, weight, targets, bias, row_max, row_sum, row_entropy_sum, grad_logp, grad_lse, grad_entropy,
      to_hidden, to_weight, to_bias, contract, saved, row_temperature=None, rows=None, temperature=1.0,
      ignore_index=None, on_invalid="zero", vocab_size=None, binary64=False, backend="auto"):  # fmt: skip
    _checks.leading(targets, hidden, "hidden")
    return (
        _like_or_empty(hidden, to_hidden),
        _like_or_empty(weight, to_weight),
        _like_or_empty(hidden if bias is None else bias, to_bias and bias is not None),
    )


@register("samebits::linear_logp_backward_into")
def _(hidden, weight, targets, bias, row_max, row_sum, row_entropy_sum, grad_logp, grad_lse, grad_entropy,
      grad_weight_accumulator, to_hidden, to_bias, contract, saved, row_temperature=None, rows=None,
      temperature=1.0, ignore_index=None, on_invalid="zero", vocab_size=None, binary64=False,
      backend="auto"):  # fmt: skip
    _checks.leading(targets, hidden, "hidden")
    return (
        _like_or_empty(hidden, to_hidden),
        _like_or_empty(hidden if bias is None else bias, to_bias and bias is not None),
    )
