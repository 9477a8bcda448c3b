"""Patterns of topic names: Java's regular expressions as far as RE2 has them, matched against whole names.

RE2 takes time linear to the name; librdkafka would hand a pattern to the C library, which a pattern can keep
busy for ever.
"""

from collections.abc import Callable

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v2.errors import UNPROCESSABLE

_CHARACTERS_MAX = 1_000


def compiled(pattern: str) -> Callable[[str], bool]:
    """Whether a name matches. HttpProblem 422."""
    import re2  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if len(pattern) > _CHARACTERS_MAX:
        raise HttpProblem(UNPROCESSABLE, f"topic_pattern must have at most {_CHARACTERS_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        found = re2.compile(pattern, options)
    except re2.error as wrong:
        reason = wrong.args[0].decode() if wrong.args and isinstance(wrong.args[0], bytes) else str(wrong)
        raise HttpProblem(UNPROCESSABLE, f"topic_pattern is no regular expression: {reason}") from None
    return lambda name: found.fullmatch(name) is not None
