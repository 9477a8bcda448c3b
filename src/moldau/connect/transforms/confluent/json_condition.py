"""Conditions of Confluent's Filter: a part of JSONPath.

    $.status                          there is such a field, and it is not null
    $[?(@.amount > 100)]              of the whole value
    $.items[?(@.price >= 5 && @.kind == 'x')]    of one of the items
    == != < <= > >=  =~ /pattern/i  in [..]  nin [..]   && || !  ( )   [0] [*] ['name'] .name ..name

Patterns run in RE2. What compares values of different types is false (but for !=).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.connect.errors import ConnectError

Test = Callable[[Any], bool]
Find = Callable[[Any], Iterator[Any]]
DEPTH_MAX = 100
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[\w$-]+")
_OPERATORS = ("==", "!=", "<=", ">=", "=~", "<", ">")


def condition(text: str) -> Test:
    """Whether a path finds anything that is not null. ConnectError: it cannot be read."""
    reader = _Reader(text.strip())
    try:
        find = reader.path("$")
        if reader.at < len(reader.text):
            raise reader.error("the end")
    except RecursionError:
        raise ConnectError("the condition is nested too deep") from None
    return lambda value: any(each is not None for each in find(value))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def error(self, wanted: str) -> ConnectError:
        return ConnectError(f"the condition {self.text!r}: {wanted} is expected at character {self.at + 1}")

    def skip(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def takes(self, sign: str) -> bool:
        self.skip()
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def need(self, sign: str) -> None:
        if not self.takes(sign):
            raise self.error(repr(sign))

    def path(self, root: str) -> Find:
        """From `$` or `@` on."""
        self.need(root)
        steps: list[Find] = []
        while self.at < len(self.text):
            if self.text.startswith("..", self.at):
                self.at += 2
                steps.append(_anywhere(self._name()))
            elif self.text[self.at] == ".":
                self.at += 1
                steps.append(_members if self.takes("*") else _member(self._name()))
            elif self.text[self.at] == "[":
                self.at += 1
                steps.append(self._bracket())
            else:
                break

        def find(value: Any) -> Iterator[Any]:
            found = iter((value,))
            for step in steps:
                found = _each(step, found)
            return found

        return find

    def _name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.error("a field's name")
        self.at = found.end()
        return found[0]

    def _bracket(self) -> Find:
        if self.takes("?"):
            self.need("(")
            test = self._either()
            self.need(")")
            self.need("]")
            return _chosen(test)
        if self.takes("*"):
            self.need("]")
            return _members
        value = self._literal()
        self.need("]")
        if isinstance(value, str):
            return _member(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return _item(value)
        raise self.error("a name or a number")

    def _either(self) -> Test:
        tests = [self._both()]
        while self.takes("||"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self.takes("&&"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)

    def _one(self) -> Test:
        if self.takes("!"):
            inner = self._one()
            return lambda value: not inner(value)
        if self.takes("("):
            inner = self._either()
            self.need(")")
            return inner
        left = self._operand()
        for operator in _OPERATORS:
            if self.takes(operator):
                return self._comparison(left, operator)
        for word in ("nin", "in"):
            if self.takes(word):
                return _within(left, self._list(), word == "in")
        return lambda value: any(each is not None for each in left(value))

    def _comparison(self, left: Find, operator: str) -> Test:
        if operator == "=~":
            return self._pattern(left)
        right = self._operand()

        def test(value: Any) -> bool:
            others = list(right(value))
            return any(_compared(each, operator, other) for each in left(value) for other in others)

        return test

    def _pattern(self, left: Find) -> Test:
        self.need("/")
        end = self.at
        while end < len(self.text) and self.text[end] != "/":
            end += 2 if self.text[end] == "\\" else 1
        text = self.text[self.at : end].replace("\\/", "/")
        self.at = end
        self.need("/")
        flags = "(?i)" if self.takes("i") else ""
        try:
            pattern = compile_pattern(flags + text)
        except PatternError as error:
            raise ConnectError(f"the condition {self.text!r}: {error}") from None
        return lambda value: any(
            isinstance(each, str) and pattern.fullmatch(each) is not None for each in left(value)
        )

    def _operand(self) -> Find:
        self.skip()
        if self.text[self.at : self.at + 1] == "@":
            return self.path("@")
        value = self._literal()
        return lambda _: iter((value,))

    def _list(self) -> list[Any]:
        self.need("[")
        made: list[Any] = []
        while not self.takes("]"):
            made.append(self._literal())
            self.takes(",")
        return made

    def _literal(self) -> Any:
        self.skip()
        sign = self.text[self.at : self.at + 1]
        if sign and sign in "'\"":
            return self._quoted(sign)
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self.takes(word):
                return value
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            raise self.error("a value")
        self.at = found.end()
        return float(found[0]) if "." in found[0] or "e" in found[0].lower() else int(found[0])

    def _quoted(self, quote: str) -> str:
        made: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            sign = self.text[self.at]
            self.at += 1
            if sign == quote:
                return "".join(made)
            if sign == "\\" and self.at < len(self.text):
                sign = self.text[self.at]
                self.at += 1
            made.append(sign)
        raise self.error(quote)


def _each(step: Find, values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        yield from step(value)


def _member(name: str) -> Find:
    def find(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return find


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield from value.values() if isinstance(value, dict) else value


def _item(index: int) -> Find:
    def find(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return find


def _anywhere(name: str) -> Find:
    def find(value: Any) -> Iterator[Any]:
        left = [(value, 0)]
        while left:
            each, depth = left.pop()
            if isinstance(each, dict) and name in each:
                yield each[name]
            if depth < DEPTH_MAX:
                left += [(inner, depth + 1) for inner in _members(each)]

    return find


def _chosen(test: Test) -> Find:
    """Of a list the items, of anything else itself."""

    def find(value: Any) -> Iterator[Any]:
        for each in value if isinstance(value, list) else (value,):
            if test(each):
                yield each

    return find


def _within(left: Find, values: list[Any], wanted: bool) -> Test:
    def test(value: Any) -> bool:
        return any((any(_compared(each, "==", other) for other in values)) is wanted for each in left(value))

    return test


def _compared(one: Any, operator: str, other: Any) -> bool:
    if operator in ("==", "!="):
        same = one == other and (isinstance(one, bool) is isinstance(other, bool))
        return same is (operator == "==")
    try:
        if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
            return False
        if operator == "<":
            return bool(one < other)
        if operator == "<=":
            return bool(one <= other)
        return bool(one > other) if operator == ">" else bool(one >= other)
    except TypeError:
        return False
