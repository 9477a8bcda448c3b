"""Filters: a small part of Python's expressions, compiled to closures. Nothing is evaluated as Python.

    value.amount > 100 and key startswith "eu-"      words of our own: contains, startswith, endswith, matches
    value["order id"] == 7 or "error" in value.text
    len(value.items) > 3 and headers.trace != None
    partition in (0, 3) and offset >= 812 and size > 10_000

Names: key, value (decoded: JSON's objects by .name or ["name"]), headers (the last of each name), partition,
offset, timestamp (ms), size (bytes), topic. What is not there is None, and a comparison with None is false
(but for == and !=): a record that lacks a field does not match, and is no error.

Bounds: the text's length and depth; numbers only in arithmetic (no texts or lists that grow); patterns are
RE2 (time linear in the text). So an expression costs a record at most about its own size times the value's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.common.core.patterns import PatternError, compile_pattern

CHARACTERS_MAX = 1_000
NODES_MAX = 200
NAMES = ("key", "value", "headers", "partition", "offset", "timestamp", "size", "topic")
FUNCTIONS = (
    "len",
    "lower",
    "upper",
    "int",
    "float",
    "str",
    "abs",
    "contains",
    "startswith",
    "endswith",
    "matches",
)
_WORDS = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<!\.)\b(contains|startswith|endswith|matches)\b(?!\s*\()"""
)
_BIG = 2**128
_PATTERN_BYTES_MAX = 1 << 20

Values = Mapping[str, Any]
Part = Callable[[Values], Any]


class BadExpression(ValueError):
    """The filter cannot be used; the message is a sentence with what can be written."""


def compile_filter(text: str) -> Callable[[Values], bool]:
    """Whether a record (its values by name) matches. BadExpression."""
    if len(text) > CHARACTERS_MAX:
        raise BadExpression(f"The filter is longer than {CHARACTERS_MAX} characters.")
    if "\0" in text:
        raise BadExpression("The filter has a NUL character.")
    try:
        tree = ast.parse(_with_operators(text).strip(), mode="eval")
        count = sum(1 for _ in ast.walk(tree))
    except SyntaxError as problem:
        where = f" near column {problem.offset}" if problem.offset else ""
        raise BadExpression(f"The filter cannot be read{where}: {problem.msg}.") from None
    except (RecursionError, MemoryError, ValueError):
        raise BadExpression("The filter is nested too deeply.") from None
    if count > NODES_MAX:
        raise BadExpression("The filter has too many parts.")
    part = _compile(tree.body)

    def matches(values: Values) -> bool:
        try:
            return bool(part(values))
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            return False

    return matches


def _with_operators(text: str) -> str:
    """`a contains b` as `a @ b`: the operators of Python that numbers do not have stand for our words."""
    signs = {"contains": "@", "startswith": "<<", "endswith": ">>", "matches": "//"}
    return _WORDS.sub(lambda found: found[1] or f" {signs[found[2]]} ", text.replace("\n", " "))


def _compile(node: ast.expr) -> Part:
    make = _MAKERS.get(type(node))
    if make is None:
        raise BadExpression(
            f"{_named(node)} cannot stand in a filter: write comparisons with and, or, not, such as "
            'value.amount > 100 and key == "a".'
        )
    return make(node)


def _named(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:60]
    except (RecursionError, ValueError):
        return type(node).__name__


def _constant(node: ast.Constant) -> Part:
    value = node.value
    if value is not None and not isinstance(value, bool | int | float | str):
        raise BadExpression(f"{_named(node)} is neither text nor a number.")
    if isinstance(value, int) and abs(value) > _BIG:
        raise BadExpression("A number of the filter is too large.")
    return lambda values: value


def _name(node: ast.Name) -> Part:
    name = node.id
    if name in ("true", "false", "null", "none"):  # as JSON has them
        value = {"true": True, "false": False}.get(name)
        return lambda values: value
    if name not in NAMES:
        raise BadExpression(f"{name} is not known: there are {', '.join(NAMES)}. Text stands in quotes.")
    return lambda values: values.get(name)


def _attribute(node: ast.Attribute) -> Part:
    part, name = _compile(node.value), node.attr
    return lambda values: _member(part(values), name)


def _subscript(node: ast.Subscript) -> Part:
    if isinstance(node.slice, ast.Slice):
        raise BadExpression(f'{_named(node)}: parts of lists cannot be taken; write [0] or ["name"].')
    part, index = _compile(node.value), _compile(node.slice)
    return lambda values: _member(part(values), index(values))


def _member(value: Any, name: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(name) if isinstance(name, str) else None
    if isinstance(value, list | tuple | str) and isinstance(name, int):
        return value[name] if -len(value) <= name < len(value) else None
    return None


def _boolean(node: ast.BoolOp) -> Part:
    parts = [_truth(_compile(each)) for each in node.values]
    if isinstance(node.op, ast.And):
        return lambda values: all(part(values) for part in parts)
    return lambda values: any(part(values) for part in parts)


def _truth(part: Part) -> Part:
    """A part whose types do not fit is false by itself: the other side of an `or` still counts."""

    def truth(values: Values) -> bool:
        try:
            return bool(part(values))
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            return False

    return truth


def _unary(node: ast.UnaryOp) -> Part:
    part = _compile(node.operand)
    if isinstance(node.op, ast.Not):
        truth = _truth(part)
        return lambda values: not truth(values)
    if isinstance(node.op, ast.USub):
        return lambda values: -_number(part(values))
    raise BadExpression(f"{_named(node)} cannot stand in a filter.")


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no number")
    if isinstance(value, int) and abs(value) > _BIG:
        raise OverflowError
    return value


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: _number(a) + _number(b),
    ast.Sub: lambda a, b: _number(a) - _number(b),
    ast.Mult: lambda a, b: _number(a) * _number(b),
    ast.Div: lambda a, b: _number(a) / _number(b),
    ast.Mod: lambda a, b: _number(a) % _number(b),
}


def _binary(node: ast.BinOp) -> Part:
    left = _compile(node.left)
    if isinstance(node.op, ast.FloorDiv):
        return _matching(left, node.right)
    right = _compile(node.right)
    for kind, function in _TEXT_OPERATORS.items():
        if isinstance(node.op, kind):
            return lambda values: function(left(values), right(values))
    operation = _ARITHMETIC.get(type(node.op))
    if operation is None:
        raise BadExpression(f"{_named(node)} cannot stand in a filter: there are + - * / %.")
    return lambda values: operation(left(values), right(values))


def _matching(left: Part, pattern: ast.expr) -> Part:
    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
        raise BadExpression("matches needs a pattern in quotes on its right side.")
    try:
        compiled = compile_pattern(pattern.value, program_bytes_max=_PATTERN_BYTES_MAX)
    except PatternError as problem:
        raise BadExpression(f"{pattern.value!r} is no pattern: {problem}.") from None
    return lambda values: compiled.search(_text(left(values))) is not None


def _contains(whole: Any, part: Any) -> bool:
    if whole is None or part is None:
        return False
    if isinstance(whole, str):
        return _text(part) in whole
    if isinstance(whole, Mapping):
        return isinstance(part, str) and part in whole
    if isinstance(whole, Sequence):
        return part in whole
    return _text(part) in _text(whole)


_TEXT_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], bool]] = {
    ast.MatMult: _contains,
    ast.LShift: lambda a, b: a is not None and b is not None and _text(a).startswith(_text(b)),
    ast.RShift: lambda a, b: a is not None and b is not None and _text(a).endswith(_text(b)),
}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(_number(value))
    raise TypeError("no text")


def _ordered(operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return operation(left, right)
        return operation(_number(left), _number(right))

    return compared


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda a, b: not _equal(a, b),
    ast.Is: _equal,
    ast.IsNot: lambda a, b: not _equal(a, b),
    ast.Lt: _ordered(lambda a, b: a < b),
    ast.LtE: _ordered(lambda a, b: a <= b),
    ast.Gt: _ordered(lambda a, b: a > b),
    ast.GtE: _ordered(lambda a, b: a >= b),
    ast.In: lambda a, b: _contains(b, a),
    ast.NotIn: lambda a, b: not _contains(b, a),
}


def _compare(node: ast.Compare) -> Part:
    parts = [_compile(node.left), *(_compile(each) for each in node.comparators)]
    operations = [_COMPARISONS[type(each)] for each in node.ops]

    def compare(values: Values) -> bool:
        left = parts[0](values)
        for operation, part in zip(operations, parts[1:], strict=True):
            right = part(values)
            if not operation(left, right):
                return False
            left = right
        return True

    return compare


def _listing(node: ast.expr) -> Part:
    parts = [_compile(each) for each in getattr(node, "elts", ())]
    return lambda values: [part(values) for part in parts]


def _call(node: ast.Call) -> Part:
    if not isinstance(node.func, ast.Name):
        if isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS:  # value.name.startswith("a")
            return _called(node.func.attr, [node.func.value, *node.args], node)
        raise BadExpression(f"{_named(node)}: functions are {', '.join(FUNCTIONS)}.")
    return _called(node.func.id, node.args, node)


def _called(name: str, arguments: Sequence[ast.expr], node: ast.Call) -> Part:
    if node.keywords or name not in FUNCTIONS:
        raise BadExpression(f"{_named(node)}: functions are {', '.join(FUNCTIONS)}.")
    wanted = 2 if name in ("contains", "startswith", "endswith", "matches") else 1
    if len(arguments) != wanted:
        raise BadExpression(f"{name} takes {wanted} value{'s' if wanted > 1 else ''}.")
    if name == "matches":
        return _matching(_compile(arguments[0]), arguments[1])
    parts = [_compile(each) for each in arguments]
    function = _CALLED[name]
    return lambda values: function(*(part(values) for part in parts))


def _integer(value: Any) -> int:
    if isinstance(value, str) and len(value) > 40:
        raise ValueError("too long a number")
    return int(value) if isinstance(value, str) else int(_number(value))


_CALLED: dict[str, Callable[..., Any]] = {
    "len": lambda value: len(value) if isinstance(value, str | list | tuple | dict) else None,
    "lower": lambda value: _text(value).lower(),
    "upper": lambda value: _text(value).upper(),
    "int": _integer,
    "float": lambda value: float(value) if isinstance(value, str) else float(_number(value)),
    "str": _text,
    "abs": lambda value: abs(_number(value)),
    "contains": _contains,
    "startswith": _TEXT_OPERATORS[ast.LShift],
    "endswith": _TEXT_OPERATORS[ast.RShift],
}

_MAKERS: dict[type[ast.expr], Callable[[Any], Part]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.Tuple: _listing,
    ast.List: _listing,
    ast.Call: _call,
}
