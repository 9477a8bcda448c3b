"""JSON Pointer (RFC 6901): `/data/items/0`, where `~1` is a slash and `~0` a tilde. Empty: the whole."""

from __future__ import annotations

from typing import Any


class NoSuchPlace(LookupError):
    """A document has nothing where a pointer points to; the message says at which step."""


def steps_of(pointer: str) -> tuple[str, ...]:
    """The steps of a pointer. ValueError if it is none."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer} is no JSON pointer: it begins with a slash, as /data/items")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


def at(document: Any, steps: tuple[str, ...]) -> Any:
    """What a document has there. NoSuchPlace."""
    place = document
    for step in steps:
        try:
            place = place[int(step)] if isinstance(place, list) else place[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise NoSuchPlace(f"there is no {step} in /{'/'.join(steps)}") from None
    return place


def check_pointer(pointer: str | None) -> str | None:
    """For a setting: what is wrong with it."""
    try:
        steps_of(pointer or "")
    except ValueError as problem:
        return str(problem)
    return None
