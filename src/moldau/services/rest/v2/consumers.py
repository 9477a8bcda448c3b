"""The requests for consumer instances: /consumers/{group} and /consumers/{group}/instances/{instance}/..."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value, principal_of
from moldau.services.http.bodies import parse_json, read_bytes, read_json
from moldau.services.http.connections import IS_GONE
from moldau.services.http.context import context_of
from moldau.services.http.problems import HttpProblem, plain_problem
from moldau.services.http.rights import Kind, Operation
from moldau.services.rest.embedded import Format
from moldau.services.rest.v2 import fields
from moldau.services.rest.v2.errors import (
    BAD_REQUEST,
    INVALID_CONSUMER_CONSTRAINT,
    UnprocessableProblem,
    format_mismatch,
    partition_not_found,
)
from moldau.services.rest.v2.instance import Instance, InstanceConfig, Subscription
from moldau.services.rest.v2.instances import Instances
from moldau.services.rest.v2.media_types import FORMATS, check_content_type, wanted_type
from moldau.services.rest.v2.reading import ReadRequest, Records, read
from moldau.services.rest.v2.service import V2Service
from moldau.services.rest.v2.topic_patterns import compiled

_CREATE_FIELDS = (
    "id",
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "fetch.min.bytes",
    "responseMinBytes",
    "consumer.request.timeout.ms",
    "requestWaitMs",
)
_MIN_BYTES_MAX = 10_000_000
_NAME_CHARACTERS_MAX = 255
_PIECE_BYTES = 64 * 1024
_TOPICS_MAX = 10_000


async def create(service: V2Service, request: Request) -> Response:
    """POST /consumers/{group}"""
    group = _group(service, request)
    body = fields.fields(await _optional_body(request) or {}, _CREATE_FIELDS)
    name = fields.text(body, "id") or fields.text(body, "name") or None
    if name is not None and len(name) > _NAME_CHARACTERS_MAX:
        raise fields.unprocessable(f"name must have at most {_NAME_CHARACTERS_MAX} characters")
    made = await service.instances.create(group, name, _config(body), principal_of(request).name)
    path = f"/consumers/{quote(group, safe='')}/instances/{quote(made.name, safe='')}"
    return json_answer(request, {"instance_id": made.name, "base_uri": _base_url(service, request) + path})


def _config(body: dict[str, Any]) -> InstanceConfig:
    wanted = (fields.text(body, "format") or Format.BINARY).lower()
    if wanted not in FORMATS:
        raise fields.unprocessable(f"Invalid format type. It is one of {', '.join(FORMATS)}.")
    auto_commit = body.get("auto.commit.enable")
    if isinstance(auto_commit, bool):
        auto_commit = str(auto_commit).lower()
    elif auto_commit is not None and not isinstance(auto_commit, str):
        raise fields.unprocessable("auto.commit.enable must be true or false")
    return InstanceConfig(
        Format(wanted),
        auto_commit,
        fields.text(body, "auto.offset.reset"),
        _min_bytes(body),
        fields.number(body, "consumer.request.timeout.ms") or fields.number(body, "requestWaitMs"),
    )


def _min_bytes(body: dict[str, Any]) -> int | None:
    name = "fetch.min.bytes" if "fetch.min.bytes" in body else "responseMinBytes"
    value = fields.number(body, name, low=-(2**31))
    if value is not None and not -1 <= value <= _MIN_BYTES_MAX:
        raise UnprocessableProblem(
            INVALID_CONSUMER_CONSTRAINT,
            "Invalid consumer configuration. It does not abide by the constraints: Invalid value "
            f"{value} for configuration fetch.min.bytes: Value must be between -1 and {_MIN_BYTES_MAX}",
        )
    return value


def _base_url(service: V2Service, request: Request) -> str:
    """How clients reach the proxy: advertised.listeners, host.name, or as this client did."""
    url = request.url
    for advertised in service.settings.advertised_listeners:
        if advertised.startswith(f"{url.scheme}://"):
            return advertised.rstrip("/")
    if service.settings.host_name:
        port = f":{url.port}" if url.port else ""
        return f"{url.scheme}://{service.settings.host_name}{port}"
    return f"{url.scheme}://{url.netloc}"


async def delete(service: V2Service, request: Request) -> Response:
    """DELETE /consumers/{group}/instances/{instance}"""
    group, name = _group(service, request), path_value(request, "instance")
    await service.instances.remove(group, name, principal_of(request).name)
    return Response(status_code=204)


async def subscribe(service: V2Service, request: Request) -> Response:
    """POST .../subscription: by names, or by a pattern."""
    async with _instance(service, request) as instance:
        body = fields.fields(await _body(request), ("topics", "topic_pattern"))
        topics, pattern = body.get("topics"), fields.text(body, "topic_pattern")
        if topics is not None:
            names = [each for each in topics if isinstance(each, str)] if isinstance(topics, list) else []
            if not isinstance(topics, list) or len(names) < len(topics) or len(names) > _TOPICS_MAX:
                raise fields.unprocessable("topics must be a list of names")
            for name in names:
                fields.check_topic(name)
                service.require(request, Operation.READ, Kind.TOPIC, name)
            await instance.subscribe(Subscription(topics=tuple(dict.fromkeys(names))))
        elif pattern is not None:
            await _subscribe_pattern(service, request, instance, pattern)
    return Response(status_code=204)


async def _subscribe_pattern(service: V2Service, request: Request, instance: Instance, pattern: str) -> None:
    matches = compiled(pattern)
    may_read = service.rights.filter(principal_of(request), Operation.READ, Kind.TOPIC)

    async def find_topics(newest: bool) -> list[str]:
        found = await service.topics(newest=newest)
        return [
            each.name for each in found if not each.is_internal and matches(each.name) and may_read(each.name)
        ]

    await instance.subscribe(Subscription(pattern=pattern, find_topics=find_topics))


async def subscription(service: V2Service, request: Request) -> Response:
    """GET .../subscription"""
    async with _instance(service, request) as instance:
        return json_answer(request, {"topics": sorted(instance.topics)})


async def unsubscribe(service: V2Service, request: Request) -> Response:
    """DELETE .../subscription"""
    async with _instance(service, request) as instance:
        await instance.unsubscribe()
    return Response(status_code=204)


async def assign(service: V2Service, request: Request) -> Response:
    """POST .../assignments: partitions that the client chooses."""
    async with _instance(service, request) as instance:
        places = fields.places(await _body(request))
        _require_read(service, request, places)
        await instance.assign(places)
    return Response(status_code=204)


async def assignment(service: V2Service, request: Request) -> Response:
    """GET .../assignments"""
    async with _instance(service, request) as instance:
        places = [each._asdict() for each in await instance.assignment()]
    return json_answer(request, {"partitions": places})


async def seek(service: V2Service, request: Request) -> Response:
    """POST .../positions: go on at these offsets."""
    async with _instance(service, request) as instance:
        await instance.seek(fields.offsets(await _body(request)))
    return Response(status_code=204)


async def seek_to_beginning(service: V2Service, request: Request) -> Response:
    """POST .../positions/beginning"""
    async with _instance(service, request) as instance:
        await instance.seek_to_end(fields.places(await _body(request)), beginning=True)
    return Response(status_code=204)


async def seek_to_end(service: V2Service, request: Request) -> Response:
    """POST .../positions/end"""
    async with _instance(service, request) as instance:
        await instance.seek_to_end(fields.places(await _body(request)), beginning=False)
    return Response(status_code=204)


async def commit(service: V2Service, request: Request) -> Response:
    """POST .../offsets: all records returned so far, or up to the records of these offsets (inclusive)."""
    async with _instance(service, request) as instance:
        body = await _optional_body(request)
        wanted = None if body is None else fields.offsets(body)
        _require_read(service, request, wanted or ())
        await instance.commit(wanted, wait=request.query_params.get("async", "false").lower() != "true")
    return json_answer(request, [])


async def committed(service: V2Service, request: Request) -> Response:
    """GET .../offsets, with a body that names partitions."""
    async with _instance(service, request) as instance:
        body = await _optional_body(request)
        if body is None:
            raise partition_not_found()
        places = fields.places(body)
        _require_read(service, request, places)
        found = await instance.committed(places)
    return json_answer(request, {"offsets": [each._asdict() for each in found]})


async def records(service: V2Service, request: Request) -> Response:
    """GET .../records"""
    if request.method == "HEAD":  # would throw records away
        raise plain_problem(405, {"Allow": "GET"})
    async with _instance(service, request) as instance:
        content_type, asked = wanted_type(request, instance.config.format)
        if asked is not instance.config.format:
            raise format_mismatch()
        settings = service.settings
        timeout_ms = instance.config.timeout_ms or settings.consumer_request_timeout_ms
        asked_ms, asked_bytes = _parameter(request, "timeout"), _parameter(request, "max_bytes")
        extras = {each.strip() for each in request.query_params.get("include", "").split(",")}
        wanted = ReadRequest(
            asked,
            min(asked_ms, timeout_ms) if asked_ms > 0 else timeout_ms,
            min(asked_bytes, settings.consumer_request_max_bytes)
            if asked_bytes > 0
            else settings.consumer_request_max_bytes,
            with_headers="headers" in extras,
            with_timestamp="timestamp" in extras,
            gone=request.scope.get(IS_GONE, lambda: False),
        )
        found = await read(service.instances, instance, wanted)
    return RecordsResponse(service.instances, instance, found, content_type)


def _parameter(request: Request, name: str) -> int:
    text = request.query_params.get(name, "-1")
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or len(text) > 19:
        raise HttpProblem(404, f"{name} must be a whole number, and not {text[:100]!r}")
    return int(text)


class RecordsResponse(Response):
    """Records as they are sent; gives their memory back, and has them read again if nobody took them."""

    def __init__(self, instances: Instances, instance: Instance, found: Records, content_type: str) -> None:
        size_bytes = found.text_bytes + max(0, len(found.texts) - 1) + 2
        super().__init__(None, 200, {"Content-Length": str(size_bytes)}, content_type)
        self._instances = instances
        self._instance = instance
        self._found = found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send; in pieces, each when the one before has left."""
        found = self._found
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for piece in _pieces(found.texts):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)  # sending waits only for a client that is slower than this
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except BaseException:
            found.drop(self._instances.unsent)  # to seek may take long
            if found.first:
                await asyncio.shield(self._instance.rewind(found.first, found.reads))
            raise
        finally:
            found.drop(self._instances.unsent)


def _pieces(texts: list[bytes]) -> Iterator[bytes]:
    piece = bytearray(b"[")
    for index, text in enumerate(texts):
        if index:
            piece += b","
        texts[index] = b""
        for start in range(0, len(text), _PIECE_BYTES):
            piece += text[start : start + _PIECE_BYTES]
            if len(piece) >= _PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
    piece += b"]"
    yield bytes(piece)


def _group(service: V2Service, request: Request) -> str:
    group = path_value(request, "group")
    service.require(request, Operation.READ, Kind.GROUP, group)
    if "\0" in group or group != group.strip():
        # librdkafka would take what is left without these, and end the process if that is nothing.
        raise HttpProblem(BAD_REQUEST, "The group's name has a NUL character, or white space at an end.")
    return group


def _require_read(
    service: V2Service, request: Request, places: Sequence[fields.Place | fields.OffsetAt]
) -> None:
    for topic in {each.topic for each in places}:
        service.require(request, Operation.READ, Kind.TOPIC, topic)


@asynccontextmanager
async def _instance(service: V2Service, request: Request) -> AsyncIterator[Instance]:
    """The instance of a path; it does not expire while the request runs."""
    group, name = _group(service, request), path_value(request, "instance")
    instance = service.instances.get(group, name, principal_of(request).name)
    instance.running += 1
    try:
        yield instance
    finally:
        instance.running -= 1
        instance.used_at = monotonic()


async def _body(request: Request) -> Any:
    check_content_type(request)
    return await read_json(request)


async def _optional_body(request: Request) -> Any:
    """The body as JSON; None if there is none, or null."""
    content = await read_bytes(request)
    if not content.strip():
        return None
    check_content_type(request)
    return parse_json(content, context_of(request).json_depth_max)
