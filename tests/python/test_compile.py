"""torch.compile(fullgraph=True) of everything public, with the bits of eager."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits


@pytest.fixture(autouse=True)
def fresh_compiler():
    """No compiled code of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def everything(logits, targets):
    """All three outputs at a temperature."""
    return sb.logp(logits, targets, temperature=0.7, return_lse=True, return_entropy=True)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_forward_and_backward_have_no_graph_break_for_any_number_of_rows(backend):
    compiled = torch.compile(everything, fullgraph=True, dynamic=True, backend=backend)
    for rows in range(1, 10):
        logits, targets = torch.randn(rows, 300), torch.randint(-1, 301, (rows,))
        upstream = tuple(torch.randn(3, rows))
        results = []
        for function in (everything, compiled):
            leaf = logits.clone().requires_grad_()
            values = function(leaf, targets)
            results.append((*values, *torch.autograd.grad(values, leaf, upstream)))
        for eager, other in zip(*results, strict=True):
            assert_same_bits(other, eager, f"{rows} rows")


def test_a_loss_around_it_compiles():
    def loss(logits, targets):
        values = everything(logits, targets)
        return (values.logp * 2 + values.lse - values.entropy).sum()

    logits, targets = torch.randn(5, 300), torch.arange(5)
    gradients = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        leaf = logits.clone().requires_grad_()
        function(leaf, targets).backward()
        gradients.append(leaf.grad)
    assert_same_bits(gradients[1], gradients[0])


@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("entropy", [False, True])
def test_outputs_not_asked_for_do_not_break_the_compiled_gradient(lse, entropy):
    def call(logits, targets):
        values = sb.logp(logits, targets, return_lse=lse, return_entropy=entropy)
        return sum(values) if lse or entropy else values

    logits, targets = torch.randn(5, 300), torch.arange(5)
    gradients = []
    for function in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
        leaf = logits.clone().requires_grad_()
        function(leaf, targets).sum().backward()
        gradients.append(leaf.grad)
    assert_same_bits(gradients[1], gradients[0])


def test_logp_alone_recompiles_for_nothing_when_rows_vary():
    compiled = torch.compile(lambda x, t: sb.logp(x, t), fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in range(1, 10):
        logits, targets = torch.randn(rows, 300), torch.randint(0, 300, (rows,))
        assert_same_bits(compiled(logits, targets), sb.logp(logits, targets))


@pytest.mark.parametrize("grad", [False, True])
def test_buffers_and_rows_compile(grad):
    def call(logits, targets, rows, out):
        return sb.logp(logits, targets, rows=rows, out=out)

    compiled = torch.compile(call, fullgraph=not grad, backend="aot_eager")
    logits, targets = torch.randn(6, 200, requires_grad=grad), torch.arange(6)
    rows = torch.tensor([1, 4, 4, 7])
    eager = call(logits, targets, rows, torch.full((6,), 7.0))
    out = torch.full((6,), 7.0)
    returned = compiled(logits, targets, rows, out)
    assert_same_bits(out, eager)
    assert_same_bits(returned, eager)


def test_products_compile():
    def call(hidden, weight, bias, targets):
        head = sb.linear_logp(hidden, weight, targets, bias=bias)
        return head, sb.logp(sb.linear(hidden, weight, bias), targets)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    inputs = torch.randn(5, 8), torch.randn(40, 8), torch.randn(40), torch.arange(5)
    for fused in compiled(*inputs):
        assert_same_bits(fused, call(*inputs)[0])


def test_an_error_inside_compiled_code_still_names_the_argument():
    compiled = torch.compile(
        lambda x, t: sb.logp(x, t, on_invalid="raise"), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises((ValueError, RuntimeError), match=r"targets: has id 9 at row 1"):
        compiled(torch.randn(2, 9), torch.tensor([1, 9]))


def transformed_calls():
    """Transforms of logp and linear, each a function of logits [4, 300]."""
    targets, direction = torch.arange(4), torch.ones(4, 300)

    def scalar(x):
        return sb.logp(x, targets).sum()

    def dual(x):
        with torch.autograd.forward_ad.dual_level():
            values = sb.logp(torch.autograd.forward_ad.make_dual(x, direction), targets)
            return torch.autograd.forward_ad.unpack_dual(values).tangent

    return {
        "grad": torch.func.grad(scalar),
        "jvp": lambda x: torch.func.jvp(scalar, (x,), (direction,))[1],
        "vmap": lambda x: torch.func.vmap(sb.logp)(x, targets),
        "reverse twice": lambda x: torch.func.vjp(torch.func.grad(scalar), x)[1](direction)[0],
        "dual": dual,
        "linear": lambda x: torch.func.jvp(lambda w: sb.linear(x, w), (x,), (direction,))[1],
    }


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", transformed_calls())
def test_a_transform_inside_compiled_code_raises_and_never_loses_a_derivative(name, fullgraph):
    function = transformed_calls()[name]
    logits = torch.randn(4, 300)
    with pytest.raises(
        Exception, match=r"samebits: called under a torch.func transform|NotDifferentiableError"
    ):
        torch.compile(function, fullgraph=fullgraph, backend="aot_eager")(logits)
    eager = torch.compiler.disable(function)
    compiled = torch.compile(lambda x: eager(x * 2) + 0, backend="aot_eager")
    assert_same_bits(compiled(logits), function(logits * 2) + 0)


def test_second_derivatives_of_compiled_code_raise():
    leaf, targets = torch.randn(4, 300, requires_grad=True), torch.arange(4)
    compiled = torch.compile(lambda x: sb.logp(x, targets).sum(), fullgraph=True, backend="aot_eager")
    (gradient,) = torch.autograd.grad(compiled(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match=r"double backward"):
        torch.autograd.grad(gradient.sum(), leaf)


def test_gradients_of_a_compiled_linear_layer_are_those_of_eager():
    hidden, weight, bias = torch.randn(5, 8), torch.randn(40, 8), torch.randn(40)
    targets = torch.tensor([0, 39, -1, 5, 7])

    def loss(x, w, b):
        return sb.logp(sb.linear(x, w, b), targets).sum()

    gradients = []
    for function in (loss, torch.compile(loss, fullgraph=True)):
        leaves = [v.clone().requires_grad_() for v in (hidden, weight, bias)]
        gradients.append(torch.autograd.grad(function(*leaves), leaves))
    for eager, compiled in zip(*gradients, strict=True):
        assert_same_bits(compiled, eager)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_invalid": "maybe"}, r"on_invalid: is 'maybe'"),
        ({"precision": "fp8"}, r"precision: is 'fp8'"),
        ({"temperature": torch.ones(7)}, r"temperature: has shape \[7\]"),
    ],
)
def test_a_bad_option_in_compiled_code_is_named(options, message):
    compiled = torch.compile(lambda x, t: sb.logp(x, t, **options), backend="aot_eager")
    with pytest.raises(ValueError, match="^" + message):
        compiled(torch.randn(4, 30), torch.arange(4))
