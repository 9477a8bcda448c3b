"""The media types of v2: `application/vnd.kafka[.FORMAT].v2+json`.

A request with records names its format in Content-Type; a read of a consumer instance in Accept, where a type
without a format (or */*) means the instance's own.
"""

from collections.abc import Iterable

from starlette.requests import Request

from moldau.services.http.media_types import JSON, choose, essence
from moldau.services.http.problems import HttpProblem, plain_problem
from moldau.services.rest.embedded import Format

V2_JSON = "application/vnd.kafka.v2+json"
FORMATS = (Format.BINARY, Format.JSON, Format.AVRO, Format.JSONSCHEMA, Format.PROTOBUF)


def media_type_of(wanted: Format) -> str:
    """The media type that embeds a format."""
    return f"application/vnd.kafka.{wanted}.v2+json"


_BY_MEDIA_TYPE = {media_type_of(each): each for each in FORMATS}
GENERAL = (V2_JSON, "application/vnd.kafka+json", JSON)
OFFERED = (*GENERAL, *_BY_MEDIA_TYPE)
"""Of every response: clients may name their format throughout. Java's proxy takes them with a low weight."""
_PREFIXES = ("/topics", "/consumers", "/brokers")


def offered_media_types(path: str) -> tuple[str, ...] | None:
    """The media types of responses, by path; None for a path that is not v2's."""
    return OFFERED if path == "/" or path.startswith(_PREFIXES) else None


def produced_format(request: Request) -> Format:
    """The format of the records in a request. HttpProblem 415."""
    given = essence(request.headers.get("content-type", ""))
    found = Format.BINARY if given == V2_JSON else _BY_MEDIA_TYPE.get(given)
    if found is None:
        raise _unsupported(media_type_of(Format.JSON) + " or that of another format", _BY_MEDIA_TYPE)
    return found


def check_content_type(request: Request) -> None:
    """HttpProblem 415 for a body of another type; scripts of other sites cannot send these unasked."""
    if essence(request.headers.get("content-type", "")) not in OFFERED:
        raise _unsupported(V2_JSON, [V2_JSON])


def _unsupported(wanted: str, known: Iterable[str]) -> HttpProblem:
    message = f"HTTP 415 Unsupported Media Type: write Content-Type: {wanted}"
    return HttpProblem(415, message, headers={"Accept-Post": ", ".join(known)})


def wanted_type(request: Request, own: Format) -> tuple[str, Format]:
    """The media type of a response with records, and the format asked for. HttpProblem 406."""
    found = choose(request.headers.get("accept"), (media_type_of(own), *OFFERED))
    if found is None:
        raise plain_problem(406)
    return found, _BY_MEDIA_TYPE.get(found, own)
