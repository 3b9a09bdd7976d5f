"""What a plan promises of a path, held against what ran on it."""

from samebits import Plan
from samebits.check.probe.paths import Path
from samebits.check.probe.profiled import Observed, others, ours

# Operators, by the kernels of a plan that they stand for; the others have the kernel's name.
_KERNEL = {
    "logp": "logp_forward",
    "logp_out": "logp_forward",
    "linear_logp_backward_into": "linear_logp_backward",
    "embedding": "embedding_forward",
    "embedding_backward_into": "embedding_backward",
}
# They look at a tensor, or say how it is to be looked at.
_VIEWS = frozenset(
    "_fw_primal _has_same_storage_numel _make_dual _reshape_alias _unpack_dual _unsafe_view alias "
    "as_strided chunk detach detach_ expand expand_as flatten is_same_size movedim narrow numel permute "
    "reshape resolve_conj resolve_neg result_type select slice split squeeze t to transpose unbind "
    "unflatten unsqueeze view view_as".split()
)
_COPIES = frozenset(
    "_to_copy cat clone constant_pad_nd contiguous copy_ empty_like fill_ full_like new_empty new_zeros "
    "ones_like select_backward slice_backward stack zero_ zeros_like".split()
)
_ELEMENTWISE = frozenset(
    "__and__ __or__ add add_ bitwise_and bitwise_or div div_ eq ge gt isfinite isinf isnan le logical_and "
    "logical_not lt masked_fill mul mul_ ne neg neg_ sub sub_ where".split()
)
_MAY_TOUCH = {
    "fused": _VIEWS,
    "copied": _VIEWS | _COPIES,
    "composed": _VIEWS | _COPIES | _ELEMENTWISE,
}
# What samebits is there to replace: of no size on any path.
_NEVER = frozenset(
    "_log_softmax _log_softmax_backward_data _scaled_mm _softmax _softmax_backward_data addbmm addmm "
    "addmm_ addmv addr baddbmm bmm cross_entropy_loss dot einsum embedding embedding_backward "
    "embedding_dense_backward exp gather index_add index_add_ inner linear log log_softmax logsumexp "
    "matmul mm mv nll_loss nll_loss_forward scatter_add scatter_add_ softmax vdot".split()
)
_NEVER_KERNELS = (
    "gemm",
    "gemv",
    "softmax",
    "cutlass",
    "xmma",
    "nvjet",
    "splitk",
    "embedding_backward",
    "nll_loss",
)
# Kernels that tell the engines of a head apart.
_HEAD_ENGINES = {
    "sm90": ("sm90_product",),
    "generic": ("tile_", "product_mma_tile", "product_fma_tile"),
}


def problems(
    path: Path, observed: Observed, plans: list[Plan], on_cuda: bool, backend: str | None
) -> list[str]:
    """Everything that ran without a promise, and everything promised that did not run."""
    promised = {kernel.partition("/")[0] for plan in plans for kernel in plan.kernels}
    ran = {_KERNEL.get(name, name) for name in observed.samebits}
    found = [f"the plan refuses: {refusal}" for plan in plans for refusal in plan.refusals]
    for plan in plans if backend else ():
        taken = [choice.name for choice in plan.backends if choice.taken]
        if backend not in taken:
            found.append(f"the plan of {plan.op} takes {' and '.join(taken)} where {backend} is asked for")
    found += [f"{name} did not run" for name in sorted(path.needed - ran)]
    found += [f"samebits::{name} ran, which the plan does not name" for name in sorted(ran - promised)]
    never = _NEVER.intersection(observed.aten)
    found += [f"aten::{name} ran, which samebits is there to replace" for name in sorted(never)]
    for name in sorted(observed.large.keys() - _MAY_TOUCH[path.kind] - never):
        found.append(
            f"aten::{name} ran on a tensor as large as the operator's own, on a path that is {path.kind}"
        )
    if on_cuda:
        found += _kernel_problems(observed.kernels, plans)
        if path.kind == "fused" and any(name.startswith("Memcpy DtoH") for name in observed.kernels):
            found.append("something was copied to the host, which waits for the device")
    return found


def _kernel_problems(kernels: list[str], plans: list[Plan]) -> list[str]:
    seen, planned = ours(kernels), [kernel for plan in plans for kernel in plan.kernels]
    by_library = any(kernel.endswith("-cublaslt") for kernel in planned)
    found = [] if seen or by_library else ["no kernel of samebits ran on the device"]
    for name in seen:
        if not any(_belongs(name, kernel) for kernel in planned):
            found.append(f"kernel {name} ran, which the plan does not name")
    engines = {kernel.rpartition("-")[2] for kernel in planned if kernel.startswith("linear_logp")}
    for engine in sorted(engines):
        if not any(name.startswith(_HEAD_ENGINES[engine]) for name in seen):
            found.append(f"engine {engine} of the plan did not run")
    for name in () if by_library else others(kernels):
        if any(word in name.lower() for word in _NEVER_KERNELS):
            found.append(f"kernel {name} ran, which samebits is there to replace")
    return found


def _belongs(name: str, planned: str) -> bool:
    """Whether a kernel of the device may be a part of one that a plan names."""
    operator, _, place = planned.partition("/")
    engine = place.rpartition("-")[2]
    if operator == "matmul":
        return name in (engine, "product_finish_elements")
    if operator.startswith("linear_logp"):  # many kernels; those of another engine are not its own
        return not any(name.startswith(marks) for e, marks in _HEAD_ENGINES.items() if e != engine)
    return operator.startswith("embedding") or name.startswith(operator)
