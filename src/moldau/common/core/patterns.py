"""Regular expressions from settings, options and requests: RE2, in linear time.

Python's `re` backtracks: `(a+)+$` takes minutes for thirty characters, and a name that a client chooses (of a
certificate, a principal, a topic) would stop the event loop. RE2 reads Java's and Python's usual syntax; what
it cannot do in linear time is refused here, at the start, with a sentence that says so: look-ahead,
look-behind, back-references, possessive repeats and atomic groups. All patterns are compiled here; those in
Java's syntax that only command lines take are translated first (java_patterns.py).

`tests/unit/test_patterns_of_others.py` looks for patterns in the source that run in `re` all the same.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

_PROGRAM_BYTES_MAX = 8 << 20
_MISSING = ("(?=", "(?!", "(?<=", "(?<!", "(?>", "++", "*+", "?+", "}+")
_DIGITS = "123456789k"
_ADVICE = (
    "; look-ahead, look-behind, back-references and possessive repeats are not served, because they can take "
    "for ever: patterns run in RE2"
)


class PatternError(ValueError):
    """The pattern cannot be used; the text says why. `reason`: the same in RE2's words alone."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason + advice)
        self.reason = reason


class NoEngine(PatternError):
    """RE2 is not installed: no pattern can be used."""


class Match(Protocol):
    """Where a pattern has matched."""

    def __getitem__(self, group: int | str) -> str | None: ...


class Pattern(Protocol):
    """A compiled pattern; as in `re`."""

    @property
    def groups(self) -> int: ...

    @property
    def groupindex(self) -> Mapping[str, int]: ...

    def fullmatch(self, text: str) -> Match | None: ...

    def search(self, text: str) -> Match | None: ...

    def sub(self, replacement: Callable[[Match], str], text: str, count: int = 0) -> str: ...


@lru_cache(maxsize=256)
def compile_pattern(
    text: str, *, dot_takes_newline: bool = False, program_bytes_max: int = _PROGRAM_BYTES_MAX
) -> Pattern:
    """Compile a pattern with RE2, which takes at most `program_bytes_max` bytes for it and its states.
    PatternError."""
    try:
        import re2  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise NoEngine("the package google-re2 is not installed") from None
    options: Any = re2.Options()
    options.log_errors = False
    options.max_mem = program_bytes_max
    options.dot_nl = dot_takes_newline
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "syntax error"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(reason, _ADVICE if _asks_for_backtracking(text) else "") from None
    return compiled


def _asks_for_backtracking(text: str) -> bool:
    if any(sign in text for sign in _MISSING):
        return True
    return any(f"\\{digit}" in text for digit in _DIGITS)
