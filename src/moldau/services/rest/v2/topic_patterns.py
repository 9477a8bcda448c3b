"""Patterns of topic names: Java's regular expressions as far as RE2 has them, matched against whole names.

RE2 takes time linear to the name; librdkafka would hand a pattern to the C library, which a pattern can keep
busy for ever.
"""

from collections.abc import Callable

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v2.errors import UNPROCESSABLE

_CHARACTERS_MAX = 1_000
_PROGRAM_BYTES_MAX = 1 << 20
"""Some hundred compiled patterns are kept, whoever sent them."""


def compiled(pattern: str) -> Callable[[str], bool]:
    """Whether a name matches. HttpProblem 422."""
    if len(pattern) > _CHARACTERS_MAX:
        raise HttpProblem(UNPROCESSABLE, f"topic_pattern must have at most {_CHARACTERS_MAX} characters")
    try:
        found = compile_pattern(pattern, program_bytes_max=_PROGRAM_BYTES_MAX)
    except PatternError as wrong:
        raise HttpProblem(UNPROCESSABLE, f"topic_pattern is no regular expression: {wrong}") from None
    return lambda name: found.fullmatch(name) is not None
