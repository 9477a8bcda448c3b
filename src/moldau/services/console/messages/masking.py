"""Fields that are not shown, by topic: `TOPIC:PATH`, where TOPIC may end in * and PATH is value.card.number,
value, key, key.id or headers.token.

What is masked is masked before filters see it: a filter that could ask for it would tell it. A key or value
that has a masked field, and is no JSON or schema's value, is hidden whole, and never shown as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moldau.services.console.messages.decoding import Shown, json_text

HIDDEN = "•••"


class Mask(NamedTuple):
    """One rule: the topic's name or how it begins, the part (key, value, headers), the path within."""

    topic: str
    is_prefix: bool
    part: str
    path: tuple[str, ...]

    def is_for(self, topic: str) -> bool:
        """Whether the topic is meant."""
        return topic.startswith(self.topic) if self.is_prefix else topic == self.topic


def parse_mask(text: str) -> Mask:
    """One rule. ValueError: what is wrong with it."""
    topic, colon, path = text.strip().rpartition(":")
    part, *rest = path.split(".")
    if not colon or not topic or part not in ("key", "value", "headers") or "" in rest:
        raise ValueError(f"{text} is no mask: write TOPIC:value.FIELD, TOPIC:key or TOPIC:headers.NAME")
    return Mask(topic.removesuffix("*"), topic.endswith("*"), part, tuple(rest))


class TopicMasks:
    """The masks of one topic."""

    def __init__(self, masks: Iterable[Mask], topic: str) -> None:
        fitting = [each for each in masks if each.is_for(topic)]
        self._paths = {
            part: [each.path for each in fitting if each.part == part] for part in ("key", "value", "headers")
        }
        self.any = bool(fitting)

    def hides(self, part: str) -> bool:
        """Whether something of the key or value is hidden: its bytes must not be shown then."""
        return bool(self._paths[part])

    def applied(self, part: str, found: Shown) -> Shown:
        """The key or value without what is hidden."""
        paths = self._paths[part]
        if not paths or found.format == "null":
            return found
        if () in paths or found.format not in ("json", "schema") or not isinstance(found.value, dict | list):
            return Shown("masked", None, HIDDEN, "masked", found.schema)
        value = found.value
        for path in paths:
            value = _without(value, path)
        return found._replace(value=value, text=json_text(value))

    def header(self, name: str) -> bool:
        """Whether a header is hidden."""
        return any(not path or path[0] == name for path in self._paths["headers"])


def _without(value: Any, path: Sequence[str]) -> Any:
    """A copy with the field hidden; in lists, in each of their values."""
    if not path:
        return HIDDEN
    if isinstance(value, list):
        return [_without(each, path) for each in value]
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: _without(value[path[0]], path[1:])}
    return value
