"""Durations as Spark writes them ("10 seconds", "1 hour 30 minutes"), checked before Java starts."""

from __future__ import annotations

import re

from moldau.streams.errors import AppError

SPAN = re.compile(
    r"\s*(interval\s+)?"
    r"([-+]?\d*\.?\d+\s*(microsecond|millisecond|second|minute|hour|day|week|month|year)s?\s*)+",
    re.IGNORECASE,
)


def checked_duration(text: str, what: str) -> str:
    """The text, if it is a duration; `what` is named in the AppError."""
    if not isinstance(text, str) or not SPAN.fullmatch(text):
        raise AppError(f"{what}={text!r} is no span of time: write one such as '10 seconds' or '1 hour'")
    return text
