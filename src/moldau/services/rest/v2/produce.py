"""POST /topics/{topic} and /topics/{topic}/partitions/{partition}: the records of one request.

All records are made to bytes before the first is sent: a request that is wrong in its last record writes
nothing. After that, each record has its own outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moldau.client.admin.problem import KafkaProblem
from moldau.services.http.answers import bytes_answer, media_type
from moldau.services.http.application import path_value
from moldau.services.http.bodies import parsed_bytes, read_bytes
from moldau.services.http.context import context_of
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation
from moldau.services.kafka.producing import Record
from moldau.services.rest.embedded import BadData, Format, to_bytes
from moldau.services.rest.schema_choice import SchemaChoice, SchemaCoder
from moldau.services.rest.v2 import fields
from moldau.services.rest.v2.errors import (
    CONVERSION_FAILED,
    KEY_SCHEMA_MISSING,
    NOT_AUTHENTICATED,
    NOT_AUTHORIZED,
    VALUE_SCHEMA_MISSING,
    partition_not_found,
    record_error_code,
    request_problem,
)
from moldau.services.rest.v2.media_types import produced_format
from moldau.services.rest.v2.metadata import partition_in
from moldau.services.rest.v2.record_pieces import RecordPieces
from moldau.services.rest.v2.service import V2Service

_REQUEST_FIELDS = ("records", "key_schema", "key_schema_id", "value_schema", "value_schema_id")
_RECORD_FIELDS = frozenset(("key", "value", "partition", "headers", "timestamp"))
RECORD_HELD_BYTES = 190
"""A record beside its text: the tuple, the objects of key and value; later, in their place, its outcome."""
_SLICE_RECORDS = 200
_FREED_RECORDS = 1_000
_PARSED_INLINE_BYTES_MAX = 128 * 1024

Coder = Callable[[Any], bytes | None]


async def produce_to_topic(service: V2Service, request: Request) -> Response:
    """Records with a partition of their own, or the partitioner's."""
    return await _produce(service, request, None)


async def produce_to_partition(service: V2Service, request: Request) -> Response:
    """Records for one partition."""
    return await _produce(service, request, partition_in(request))


async def _produce(service: V2Service, request: Request, partition: int | None) -> Response:
    topic = path_value(request, "topic")
    service.require(request, Operation.WRITE, Kind.TOPIC, topic)
    wanted = produced_format(request)
    plain = None if wanted.schema_type is not None else _plain_coder(wanted)
    body, given, records = await _read(request, partition, plain)
    key_coder = await _schema_coder(service, topic, wanted, body, is_key=True)
    value_coder = await _schema_coder(service, topic, wanted, body, is_key=False)
    if plain is None:
        key = _schema_writer(key_coder, KEY_SCHEMA_MISSING, "keys", "key")
        value = _schema_writer(value_coder, VALUE_SCHEMA_MISSING, "values", "value")
        records = await service.schemas.in_thread(_records, given, partition, key, value)
    else:
        records += await _sliced(given, partition, plain, plain)
    del body, given
    try:
        if partition is not None and not await _has_partition(service, topic, partition):
            raise partition_not_found()
        written = await service.producers.begin_shaped(topic, records, _delivered, freed=True)
        await _free(records)
        outcomes = await written
    except KafkaProblem as problem:
        raise request_problem(problem) from None
    context_of(request).release()
    return await _answer(request, outcomes, key_coder, value_coder)


async def _read(
    request: Request, partition: int | None, plain: Coder | None
) -> tuple[dict[str, Any], list[Any], list[Record]]:
    """The request's fields; its records as they are in JSON; those that a `plain` coder has made already.

    Large bodies are parsed a piece at a time, and made to records at once: what very many records are in JSON
    is a burden for Python's garbage collector.
    """
    text = await read_bytes(request)
    context = context_of(request)
    pieces = RecordPieces(text, context.json_depth_max)
    given: list[Any] = []
    records: list[Record] = []
    parsed = iter(pieces)
    if plain is None or not pieces.is_cut:
        context.hold(await _parsed_bytes(text))
    while (piece := await _next(parsed, len(text))) is not None:
        context.hold(RECORD_HELD_BYTES * len(piece))
        if plain is None:
            given += piece
        else:
            records += await _sliced(piece, partition, plain, plain)
    body = fields.fields(pieces.fields, _REQUEST_FIELDS)
    if not given and not records:
        given = fields.items(body, "records")
        context.hold(RECORD_HELD_BYTES * len(given))
    return body, given, records


async def _parsed_bytes(body: bytes) -> int:
    if len(body) <= _PARSED_INLINE_BYTES_MAX:
        return 0  # of many small bodies few are parsed at a time
    return await asyncio.to_thread(parsed_bytes, body)


async def _next(pieces: Iterator[list[Any]], body_bytes: int) -> list[Any] | None:
    if body_bytes <= _PARSED_INLINE_BYTES_MAX:
        return next(pieces, None)
    return await asyncio.to_thread(next, pieces, None)  # a piece may yet be large: one record is not cut


async def _has_partition(service: V2Service, topic: str, partition: int) -> bool:
    """Whether it is there; also one that was added since the topic was last asked for."""
    sizes = service.producers.topics
    if partition < await sizes.partitions(topic):
        return True
    return partition < await sizes.partitions(topic, newer=True)


async def _schema_coder(
    service: V2Service, topic: str, wanted: Format, body: dict[str, Any], *, is_key: bool
) -> SchemaCoder | None:
    side = "key" if is_key else "value"
    schema_id = fields.number(body, f"{side}_schema_id")
    schema = fields.text(body, f"{side}_schema")
    if wanted.schema_type is None or (schema_id is None and schema is None):
        return None
    choice = SchemaChoice(
        format=wanted, schema_id=schema_id, schema=None if schema_id is not None else schema
    )
    return await service.schemas.coder(topic, is_key, choice)


def _plain_coder(wanted: Format) -> Coder:
    def code(data: Any) -> bytes | None:
        try:
            return to_bytes(wanted, data)
        except BadData as problem:
            raise HttpProblem(400, str(problem)) from None

    return code


def _schema_writer(coder: SchemaCoder | None, code_if_missing: int, plural: str, side: str) -> Coder:
    def code(data: Any) -> bytes | None:
        if data is None:
            return None
        if coder is None:
            raise HttpProblem(
                code_if_missing, f"Request includes {plural} but does not include {side} schema"
            )
        try:
            return coder.write(data)
        except BadData as problem:
            raise HttpProblem(CONVERSION_FAILED, f"Conversion of JSON to Object failed: {problem}") from None

    return code


async def _sliced(given: list[Any], partition: int | None, key: Coder, value: Coder) -> list[Record]:
    """The records; the event loop has its turn between slices of them."""
    if len(given) <= _SLICE_RECORDS:
        return _records(given, partition, key, value)
    records: list[Record] = []
    for start in range(0, len(given), _SLICE_RECORDS):
        some = given[start : start + _SLICE_RECORDS]
        given[start : start + _SLICE_RECORDS] = [None] * len(some)  # to be freed a slice at a time, too
        records += _records(some, partition, key, value)
        del some
        await asyncio.sleep(0)
    return records


def _records(given: list[Any], partition: int | None, key: Coder, value: Coder) -> list[Record]:
    """Called for every record: what most records do not have is looked at only where it is."""
    made: list[Record] = []
    for each in given:
        if type(each) is not dict or not each.keys() <= _RECORD_FIELDS:
            fields.fields(each, sorted(_RECORD_FIELDS), "A record")
        own, timestamp, headers = each.get("partition"), each.get("timestamp"), each.get("headers")
        made.append(
            (
                key(each.get("key")),
                value(each.get("value")),
                partition if own is None else fields.number(each, "partition"),
                None if timestamp is None else fields.timestamp_ms(timestamp),
                () if headers is None else fields.headers(headers),
            )
        )
    return made


async def _answer(
    request: Request,
    outcomes: list[bytes | KafkaProblem],
    key: SchemaCoder | None,
    value: SchemaCoder | None,
) -> Response:
    status = 200
    body = bytearray(b'{"offsets":[')
    while outcomes:
        some = outcomes[:_FREED_RECORDS]
        del outcomes[:_FREED_RECORDS]
        for outcome in some:
            if isinstance(outcome, bytes):
                body += outcome
            else:
                code = record_error_code(outcome)
                if status == 200 and code in (NOT_AUTHENTICATED, NOT_AUTHORIZED):
                    status = code // 100
                failed = {"partition": None, "offset": None, "error_code": code, "error": str(outcome)}
                body += orjson.dumps(failed)
            body += b","
        del some
        await asyncio.sleep(0)
    body[-1:] = b'],"key_schema_id":%b,"value_schema_id":%b}' % (_id(key), _id(value))
    return bytes_answer(bytes(body), media_type(request), status)


async def _free(records: list[Record]) -> None:
    """Empty the list, a slice at a time: to free very many things takes as long as to make them."""
    while records:
        del records[-_FREED_RECORDS:]
        await asyncio.sleep(0)


def _delivered(partition: int, offset: int, timestamp_ms: int | None) -> bytes:
    return b'{"partition":%d,"offset":%d,"error_code":null,"error":null}' % (partition, offset)


def _id(coder: SchemaCoder | None) -> bytes:
    return b"null" if coder is None else b"%d" % coder.schema_id
