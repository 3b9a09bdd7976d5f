"""Numbers written as the arithmetic they come from: "64 * 2**-24 * sqrt(depth)"."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

_OPERATIONS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable] = {"sqrt": math.sqrt, "min": min, "max": max}
_LARGEST_EXPONENT = 1100  # of a power: beyond it no binary64 number is finite and none is normal


class Expression:
    """Sums, products, quotients and powers of numbers and names, with sqrt, min and max."""

    def __init__(self, text: str | int | float):
        """Parse; nothing is evaluated.

        Args:
            text: the arithmetic, or a number.

        Raises:
            ValueError: says what is not allowed in it.
        """
        self.text = str(text)
        try:
            self._tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, RecursionError, MemoryError):
            raise ValueError(f"is {self.text!r}, which is no arithmetic") from None
        self.names = frozenset(_names(self._tree))
        """The names that `value` has to be given."""

    def value(self, variables: Mapping[str, float]) -> float:
        """The number, with these values of its names.

        Raises:
            ValueError: a name without a value, or a result that is no finite number.
        """
        try:
            number = _evaluate(self._tree, variables)
        except KeyError as error:
            raise ValueError(f"is {self.text!r}, and {error.args[0]} has no value") from None
        except (ArithmeticError, TypeError):
            raise ValueError(f"is {self.text!r}, which has no value") from None
        if isinstance(number, complex) or not math.isfinite(number):
            raise ValueError(f"is {self.text!r}, which is {number}")
        return float(number)


def _names(node: ast.AST) -> set[str]:
    """Names of a tree in which nothing else than arithmetic is found."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _names(node.left) | _names(node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _names(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args and not node.keywords:
        if node.func.id in _FUNCTIONS:
            return set().union(*map(_names, node.args))
    text = ast.unparse(node)
    raise ValueError(f"has {text!r} in it; may be numbers, names, + - * / **, sqrt, min and max")


def _evaluate(node: ast.AST, variables: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return variables[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, variables)
    if isinstance(node, ast.Call):
        return _FUNCTIONS[node.func.id](*(_evaluate(argument, variables) for argument in node.args))
    left, right = _evaluate(node.left, variables), _evaluate(node.right, variables)
    if isinstance(node.op, ast.Pow):
        if abs(right) > _LARGEST_EXPONENT:
            raise OverflowError
        left = float(left)  # an integer power could take all memory
    return _OPERATIONS[type(node.op)](left, right)
