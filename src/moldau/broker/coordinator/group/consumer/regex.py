"""Regular-expression subscriptions: RE2 syntax, matched in linear time, against whole topic names.

A client may send any pattern, and the broker runs it against every topic on its event loop. With a
backtracking engine one client could stop the broker with `(a*)*b`. So the engine is RE2, Kafka's choice too
(`google-re2` from PyPI), which takes linear time for every pattern. Where its wheel is missing,
Python's own engine serves, with everything refused that could make it backtrack badly: see
docs/decisions/consumer-group-regex.md.

A pattern has to match a whole name: `orders` does not match `orders-eu`, `orders.*` does.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from moldau.common.core import patterns

PATTERN_CHARACTERS_MAX = 1000
"""Longer than a few topic names of 249 characters each, in alternatives."""

PROGRAM_BYTES_MAX = 1 << 20
"""RE2's memory for one compiled pattern and its states."""

ANSWERS_MAX = 1000
"""Answers cached at a time; clients choose the patterns, so their number is bounded."""

FALLBACK_REPEATS_MAX = 3
"""Each unbounded repeat multiplies the fallback's worst case by the length of the name."""

Matches = Callable[[str], bool]


class InvalidPattern(Exception):
    """The pattern is refused; the text says why, as a part of a sentence for the client."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Matches:
    """A function that says whether a topic's whole name matches. Raises `InvalidPattern`."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidPattern(f"it is longer than {PATTERN_CHARACTERS_MAX} characters")
    try:
        fullmatch = patterns.compile_pattern(pattern, program_bytes_max=PROGRAM_BYTES_MAX).fullmatch
    except patterns.NoEngine:
        return _compile_guarded(pattern)
    except patterns.PatternError as error:
        raise InvalidPattern(error.reason) from None
    return lambda name: fullmatch(name) is not None


def _compile_guarded(pattern: str) -> Matches:
    """The same with Python's engine, for patterns on which it does not backtrack badly."""
    from re import _constants as opcodes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

    try:
        tree = parser.parse(pattern)
        fullmatch = re.compile(pattern).fullmatch
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidPattern(str(error)) from None
    repeats = _unbounded_repeats(tree, opcodes, inside_repeat=False)
    if repeats > FALLBACK_REPEATS_MAX:
        raise InvalidPattern(
            f"more than {FALLBACK_REPEATS_MAX} unbounded repeats need the google-re2 package"
        )
    return lambda name: fullmatch(name) is not None


def _unbounded_repeats(tree: Any, opcodes: Any, *, inside_repeat: bool) -> int:
    """Count the unbounded repeats of a parsed pattern; refuse what RE2 does not know and what backtracks
    badly."""
    count = 0
    for opcode, argument in tree:
        if opcode in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT):
            if inside_repeat:
                raise InvalidPattern("a repeat within a repeat needs the google-re2 package")
            low, high, body = argument
            if low > 1000 or (high != opcodes.MAXREPEAT and high > 1000):
                raise InvalidPattern("a repeat may ask for at most 1000")
            count += int(high > 10)
            count += _unbounded_repeats(body, opcodes, inside_repeat=True)
        elif opcode is opcodes.SUBPATTERN:
            count += _unbounded_repeats(argument[3], opcodes, inside_repeat=inside_repeat)
        elif opcode is opcodes.BRANCH:
            if inside_repeat:
                raise InvalidPattern("a choice within a repeat needs the google-re2 package")
            count += sum(_unbounded_repeats(branch, opcodes, inside_repeat=False) for branch in argument[1])
        elif opcode not in (opcodes.LITERAL, opcodes.NOT_LITERAL, opcodes.ANY, opcodes.IN, opcodes.AT):
            raise InvalidPattern("look-around, back-references and the like are not regular")
    return count


class TopicMatcher:
    """Resolves patterns against the topics that exist, looking at each topic once for each pattern.

    With thousands of topics and groups, matching all names again for each new topic would take long; so
    the last answer is cached, and only new names are matched.
    """

    __slots__ = ("_answers", "_names", "_names_of")

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._names_of: Mapping[str, object] | None = None
        self._answers: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def resolve(self, pattern: str, topics: Mapping[str, object]) -> frozenset[str]:
        """The names in `topics` that `pattern` matches; none if it does not compile (an old log may hold
        such)."""
        if topics is not self._names_of:
            self._names_of, self._names = topics, frozenset(topics)
        names = self._names
        known, matched = self._answers.get(pattern, (frozenset(), frozenset()))
        if known is not names:
            try:
                matches = compile_pattern(pattern)
            except InvalidPattern:
                return frozenset()
            matched = (matched & names) | frozenset([name for name in names - known if matches(name)])
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[pattern] = (names, matched)
        return matched
