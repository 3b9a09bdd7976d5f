"""The house lints find what they are for."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import check_cuda_code
import lint_bits
import lint_docs
import lint_includes
import lint_sizes
import lint_stable_abi


@pytest.fixture
def lint(tmp_path):
    """Problems a lint reports for a tree of one file."""

    def check(module, name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return module.problems(tmp_path, [path.relative_to(tmp_path)])

    return check


@pytest.mark.parametrize(
    ("file", "header", "allowed"),
    [
        ("src/cpu/a.cpp", "order/row.h", True),
        ("src/order/a.h", "core/plan.h", False),
        ("src/cpu/a.cpp", "cuda/prim/warp.cuh", False),
        ("src/cpu/a.cpp", "torch/csrc/stable/tensor.h", False),
        ("src/core/a.cpp", "hwy/highway.h", False),
        ("bindings/torch/a.cpp", "torch/csrc/stable/tensor.h", True),
        ("bindings/torch/a.cpp", "samebits/logp.h", True),
        ("bindings/torch/a.cpp", "core/plan.h", False),
        ("include/samebits/a.h", "cuda_runtime.h", False),
    ],
)
def test_arrows_between_rooms_are_held(lint, file, header, allowed):
    assert bool(lint(lint_includes, file, f"#include <{header}>\n")) != allowed


@pytest.mark.parametrize(
    "line",
    [
        "std::atomic<float> sum;",
        "float y = std::exp(x);",
        "std::reduce(a, b);",
        "#pragma omp simd",
        "atomicAdd((float*)p, 1)",
    ],
)
def test_code_that_could_change_bits_is_found_where_bits_are_promised(lint, line):
    assert lint(lint_bits, "src/cpu/a.cpp", line + "\n")
    assert not lint(lint_bits, "tests/cpp/a.cpp", line + "\n")


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", True),
        ("REDG.E.ADD.F64.RN.STRONG.GPU", True),
        ("@!P0 ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU", True),
        ("ATOM.E.ADD.BF16", True),
        ("ATOMS.CAST.SPIN.64", True),  # what atomicAdd of a float in shared memory becomes
        ("ATOMG.E.CAS.STRONG.GPU", True),
        ("REDG.E.ADD.64.STRONG.GPU", False),
        ("ATOMS.POPC.INC.32", False),
        ("RED.A1T0", False),
        ("FADD.FTZ", False),
    ],
)
def test_a_float_that_is_added_atomically_is_found_in_machine_code(instruction, found):
    dump = f"arch = sm_90\n\tFunction : kernel\n        /*0000*/  {instruction} [R2.64], R5 ;\n"
    ((arch, name, code),) = check_cuda_code.kernels(dump)
    assert bool(check_cuda_code.problems(arch, name, code)) == found


def test_a_long_file_is_found(lint):
    assert not lint(lint_sizes, "src/cpu/a.cpp", "\n" * 350)
    assert lint(lint_sizes, "src/cpu/a.cpp", "\n" * 351)


HEADER = """
namespace samebits {{
class Forward;
/// Documented.
struct View {{
  int rows = {{}};  ///< documented
  View() = default;
  /// Documented.
  int numel() const {{ return rows; }}

 private:
  int hidden;
}};
{}
}}  // namespace samebits
"""


@pytest.mark.parametrize(
    ("declaration", "found"),
    [
        ("/// Says what it does.\nvoid f(int x = {});", False),
        ("void f(int x = {});", True),
        ("inline constexpr int kMost = 3;", True),
        ("using Size = long;", True),
        ("template <class T>\nint g(T) { return 1; }", True),
        ("/// Colours.\nenum class Colour {\n  kRed,  ///< warm\n  kBlue,\n};", True),
        ("/// S.\nstruct S {\n  int a;\n};", True),
        ("/// C.\nclass C {\n  int a;\n};", False),
        ("namespace detail {\nint h();\n}", False),
    ],
)
def test_a_public_declaration_without_a_comment_is_found(lint, declaration, found):
    assert bool(lint(lint_docs, "include/samebits/a.h", HEADER.format(declaration))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Doc."""\n__all__ = ["f"]\n\n\ndef f():\n    """Doc."""\n', False),
        ('"""Doc."""\n__all__ = ["f"]\n\n\ndef f():\n    return 1\n', True),
        ('"""Doc."""\n\n\nclass A:\n    """Doc."""\n\n    def m(self):\n        return 1\n', True),
        ('"""Doc."""\n\n\ndef _private():\n    return 1\n', False),
    ],
)
def test_a_public_python_name_without_a_docstring_is_found(lint, text, found):
    assert bool(lint(lint_docs, "python/samebits/a.py", text)) == found


@pytest.mark.parametrize(
    ("symbol", "found"),
    [
        ("at::Tensor::sum() const", True),
        ("c10::Error::what()", True),
        ("PyObject_Call", True),
        ("torch::jit::load(std::string)", True),
        ("aoti_torch_get_sizes", False),
        ("std::format(std::string)", False),
    ],
)
def test_a_symbol_outside_the_stable_abi_is_found(symbol, found):
    assert bool(lint_stable_abi.FORBIDDEN.search(symbol)) == found
