"""Derivatives of orders 1 to 12 against exact ones; samebits.check.tolerance derives the tolerances."""

import pytest
import torch

import samebits as sb
from samebits.check.autodiff import check
from samebits.check.cases import FORMS, PRECISIONS, VOCAB, Case, make_inputs
from samebits.check.methods import METHODS, contract, reverse
from samebits.check.references import OUTPUTS, gradient_jets, torch_outputs
from samebits.check.tolerance import Tolerance, roundings

INPUTS = make_inputs(11, seed=1, device="cpu")
FP64 = PRECISIONS[3]


@pytest.fixture(autouse=True)
def one_thread(torch_as_it_was):
    """The tensors are small: several threads would mostly wait for each other."""
    torch.set_num_threads(1)


def assert_within(case: Case, method: str, orders: int) -> None:
    jets = case.jets(case.directions[: max(1, orders)])
    entries = list(check(case, method, orders, jets, Tolerance.of(case)))
    assert [entry.order for entry in entries] == list(range(1, len(entries) + 1))
    for entry in entries:
        assert entry.passed, entry
        assert entry.largest > 1e-7  # nothing is compared with zeros only


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda precision: precision.name)
def test_reverse_mode_is_exact_to_counted_roundings_up_to_order_8(precision, form, output):
    assert_within(Case(INPUTS, precision, form, output), "reverse", 8)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda precision: precision.name)
def test_nested_transforms_are_exact_to_counted_roundings(precision, method, output):
    orders = 4 if method == "forward" or output != "logp" else 6
    for form in FORMS if orders == 4 else ("dense",):
        assert_within(Case(INPUTS, precision, form, output), method, orders if form == "dense" else 3)


def test_reverse_mode_reaches_order_12_in_fp64():
    assert_within(Case(INPUTS, FP64, "dense", "logp"), "reverse", 12)


@pytest.mark.parametrize("output", OUTPUTS)
def test_pytorch_composed_in_float64_agrees(output):
    case = Case(INPUTS, FP64, "dense", output)
    ids = case.targets.clamp(0, VOCAB - 1)

    def composed(logits):
        values = torch_outputs(logits, ids)[output] * case.weights
        return torch.where(case.participating, values, 0.0)

    ours = reverse(case, case.logits, case.directions, 8)
    theirs = reverse(composed, case.logits, case.directions, 8)
    bounds, tolerance = case.jets(case.directions[:7]).bound, Tolerance.of(case)
    for order, (actual, expected) in enumerate(zip(ours, theirs, strict=True), 1):
        allowed = bounds[2 ** (order - 1) - 1] * (tolerance.relative(order) + tolerance.composed(order))
        assert ((actual - expected).abs() <= allowed).all()


def test_jets_know_the_cumulants_of_a_coin():
    # lse of [0, 0] along (0, 1): p' = p (1 - p) at 1/2, so 1/4, 0, -1/8; and logits [0, 0] have this Hessian.
    zero, step = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    ids = torch.tensor([0])
    jets = gradient_jets("lse", zero, zero, ids, [step] * 3).gradient
    assert jets[[0, 1, 3, 7], 0, 1].tolist() == [0.5, 0.25, 0.0, -0.125]
    hessian = torch.func.hessian(lambda x: sb.logp(x, ids).sum())(zero).view(2, 2)
    assert hessian.tolist() == [[-0.25, 0.25], [0.25, -0.25]]


def nodes_inputs_first(root) -> list:
    """Nodes of a recorded graph, each after those it was computed from."""
    done, found, waiting = {}, [], [(root, False)]
    while waiting:
        node, expanded = waiting.pop()
        if expanded:
            found.append(node)
        elif node not in done:
            done[node] = True
            waiting.append((node, True))
            waiting.extend((child, False) for child, _ in node.next_functions if child is not None)
    return found


def counted_roundings(root, row_sum: int) -> int:
    """The most roundings that one term of the recorded expression carries beside those in its factors p."""
    counts = {}
    for node in nodes_inputs_first(root):
        parts = [counts[child] for child, _ in node.next_functions if child is not None]
        name = node.name().removesuffix("0").removesuffix("Backward")
        match name:
            case "torch::autograd::AccumulateGrad" | "Probability":
                counts[node] = 0
            case "Mul":  # a product of two terms carries what both carry
                counts[node] = sum(parts) + 1
            case "Add" | "Sub":
                counts[node] = max(parts) + 1
            case "RowSum":
                counts[node] = max(parts) + row_sum
            case "Neg" | "Where" | "RowExpand" | "Unsqueeze" | "Clone":
                counts[node] = max(parts)
            case _:
                raise AssertionError(f"how many roundings has {node.name()}?")
    return counts[root]


@pytest.mark.parametrize("output", OUTPUTS)
def test_recorded_graphs_have_no_more_roundings_than_the_tolerance_counts(output):
    leaf = INPUTS.logits.clone().requires_grad_()
    found = sb.logp(leaf, INPUTS.targets, return_lse=True, return_entropy=True)
    value = torch.where(INPUTS.targets >= 0, getattr(found, output) * INPUTS.weights, 0.0)
    (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
    for order in range(2, 10):
        value = contract(gradient, INPUTS.directions[order - 2])
        (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
        counted = counted_roundings(gradient.grad_fn, row_sum=9)
        assert order < counted <= roundings(order, VOCAB)
