"""String.split of Java."""

from __future__ import annotations

from typing import AnyStr


def split_as_java(text: AnyStr, separator: AnyStr) -> list[AnyStr]:
    """Split at each separator; empty parts at the end are left out, but a text without one is one part."""
    parts = text.split(separator) if separator else [text]
    while text and parts and not parts[-1]:
        parts.pop()
    return parts
