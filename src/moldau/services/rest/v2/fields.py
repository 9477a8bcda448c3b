"""Bodies of v2's requests: which fields they have, and what is in them.

A field that v2 does not know is refused (422), as Confluent's proxy does it. Headers and timestamps of
records are an extension, in the form of v3: `headers` is a list of {"name", "value": base64 or null},
`timestamp` is milliseconds, or ISO 8601 with a zone.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from moldau.services.http.problems import HttpProblem
from moldau.services.rest.embedded import BadData, Format, shown, to_bytes
from moldau.services.rest.v2.errors import UNPROCESSABLE

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_NAME_CHARACTERS_MAX = 255


def unprocessable(what: str) -> HttpProblem:
    """A field is wrong."""
    return HttpProblem(UNPROCESSABLE, what)


def fields(body: Any, known: Sequence[str], what: str = "The request's body") -> dict[str, Any]:
    """The fields of an object that has no others. HttpProblem."""
    if not isinstance(body, dict):
        raise HttpProblem(400, f"{what} is {shown(body)}, and not a JSON object.")
    for name in body:
        if name not in known:
            raise unprocessable(f"Unrecognized field: {name[:_NAME_CHARACTERS_MAX]}")
    return body


def text(given: Mapping[str, Any], name: str) -> str | None:
    """A field that is text, or absent."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise unprocessable(f"{name} must be text, and not {shown(value)}")
    return value


def number(given: Mapping[str, Any], name: str, high: int = _INT32_MAX, low: int = 0) -> int | None:
    """A field that is a whole number, or absent; also as text, as Jackson reads it."""
    value = given.get(name)
    if isinstance(value, str) and value.removeprefix("-").isascii() and value.removeprefix("-").isdigit():
        value = int(value[:20])
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise unprocessable(f"{name} must be a whole number from {low} to {high}, and not {shown(value)}")
    return value


def required_number(given: Mapping[str, Any], name: str, high: int = _INT32_MAX) -> int:
    """A field that is a whole number."""
    value = number(given, name, high)
    if value is None:
        raise unprocessable(f"{name} must not be null")
    return value


def items(given: Mapping[str, Any], name: str) -> list[Any]:
    """A list that is not empty."""
    value = given.get(name)
    if value is not None and not isinstance(value, list):
        raise unprocessable(f"{name} must be a list, and not {shown(value)}")
    if not value:
        raise unprocessable(f"{name} must not be empty")
    return value


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class OffsetAt(NamedTuple):
    """An offset in a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str | None


def places(body: Any) -> list[Place]:
    """{"partitions": [{"topic", "partition"}, ...]}"""
    return [
        Place(_topic(each), required_number(each, "partition"))
        for each in (
            fields(each, ("topic", "partition"), "A partition")
            for each in items(fields(body, ("partitions",)), "partitions")
        )
    ]


def offsets(body: Any) -> list[OffsetAt]:
    """{"offsets": [{"topic", "partition", "offset", "metadata"}, ...]}"""
    return [
        OffsetAt(
            _topic(each),
            required_number(each, "partition"),
            required_number(each, "offset", _INT64_MAX - 1),
            text(each, "metadata"),
        )
        for each in (
            fields(each, ("topic", "partition", "offset", "metadata"), "An offset")
            for each in items(fields(body, ("offsets",)), "offsets")
        )
    ]


def _topic(given: Mapping[str, Any]) -> str:
    name = text(given, "topic")
    if not name:
        raise unprocessable("topic must not be empty")
    check_topic(name)
    return name


def check_topic(name: str) -> None:
    """HttpProblem for a name that cannot be given to librdkafka."""
    if "\0" in name:
        raise unprocessable("a topic's name has a NUL character")


def headers(value: Any) -> list[tuple[str, bytes | None]]:
    """A record's headers. HttpProblem."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise unprocessable(f"headers must be a list, and not {shown(value)}")
    found = []
    for each in value:
        header = fields(each, ("name", "value"), "A header")
        name = text(header, "name")
        if name is None:
            raise unprocessable("name of a header must not be null")
        if "\0" in name:  # for librdkafka it would end there
            raise unprocessable("name of a header has a NUL character")
        try:
            found.append((name, to_bytes(Format.BINARY, header.get("value"))))
        except BadData as problem:
            raise HttpProblem(400, f"header {name[:_NAME_CHARACTERS_MAX]}: {problem}") from None
    return found


def timestamp_ms(value: Any) -> int | None:
    """A record's timestamp in milliseconds since 1970. HttpProblem."""
    if value is None:
        return None
    found: float = -1
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            found = moment.timestamp() * 1000 if moment.tzinfo is not None else -1
        except (ValueError, OverflowError):
            found = -1
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value
    if not 0 < found <= _INT64_MAX:  # librdkafka takes 0 for the moment of writing
        raise unprocessable(f"timestamp must be milliseconds or ISO 8601 with a zone, and not {shown(value)}")
    return round(found)
