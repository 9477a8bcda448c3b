"""GET .../records: records of an instance, as JSON text, within time and bytes.

A read ends when `max_bytes` are reached, when `fetch.min.bytes` are there, or in time. With
fetch.min.bytes=-1 it ends when records are there and none has come for `consumer.iterator.backoff.ms`.
(Confluent's proxy then waits for the whole timeout.) The first record is returned even if it is larger than
`max_bytes`: a client with a small limit goes on, record by record.

Records of responses that are not sent yet count against a budget over all instances; when it is used up,
reads return less. If the client has gone before its response is sent, its records are read again; what the
kernels have taken counts as sent.

A record that is not of the instance's format ends a read before it; the next read is an error that names its
place, as often as it is asked for: the client must seek past it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

import orjson
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message

from moldau.common.core.message_headers import message_headers
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.kafka.librdkafka_errors import problem_of
from moldau.services.rest.embedded import BadData, Format, schema_json_text, to_json_text
from moldau.services.rest.schema_choice import Schemas
from moldau.services.rest.v2.errors import KAFKA_ERROR, KAFKA_RETRIABLE_ERROR, illegal_state, request_problem
from moldau.services.rest.v2.fields import Place
from moldau.services.rest.v2.instance import NOT_SUBSCRIBED, Instance, offset_of, place_of
from moldau.services.rest.v2.instances import Instances

_POLLED_RECORDS_MAX = 200
_TURN_BYTES_MAX = 256 * 1024
"""What is made to JSON at a time: the event loop has its turn in between."""
_FIRST_PAUSE_SECONDS = 0.001
_RECORD_OVERHEAD_BYTES = 170
_TEXT_OVERHEAD_BYTES = 60
_IGNORED = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._PARTITION_EOF,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
"""librdkafka goes on by itself after these, or the topic may yet come."""


@dataclass(slots=True)
class ReadRequest:
    """What a client asks for; `gone` says whether it has left meanwhile."""

    format: Format
    timeout_ms: int
    max_bytes: int
    with_headers: bool = False
    with_timestamp: bool = False
    gone: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Records:
    """What was read: JSON text of each record; the budget's bytes that it holds; where it began."""

    texts: list[bytes] = field(default_factory=list)
    text_bytes: int = 0
    size_bytes: int = 0
    held_bytes: int = 0
    first: dict[Place, int] = field(default_factory=dict)
    last: dict[Place, int] = field(default_factory=dict)
    reads: int = 0

    def drop(self, unsent: ByteBudget) -> None:
        """Forget the texts, and give back what they held."""
        self.texts.clear()
        unsent.give_back(self.held_bytes)
        self.held_bytes = 0


async def read(instances: Instances, instance: Instance, wanted: ReadRequest) -> Records:
    """Read records. HttpProblem. The caller gives `held_bytes` back to `instances.unsent`.

    Who has left while reads before it went on did not come again: what was returned is not processed by that.
    """
    async with instance.read_turn:
        if wanted.gone():
            raise ConnectionResetError("the client has gone")
        if not instance.is_assigned():
            raise illegal_state(NOT_SUBSCRIBED)
        await instance.seek_unsent()
        instance.store_returned()
        instance.reads += 1
        found = Records(reads=instance.reads)
        try:
            await _fill(instances, instance, wanted, found)
        except BaseException:
            found.drop(instances.unsent)
            if found.first:
                await instance.rewind(found.first, found.reads)
            raise
        instance.note_returned(found.last)
        return found


async def _fill(instances: Instances, instance: Instance, wanted: ReadRequest, found: Records) -> None:
    settings = instances.settings
    backoff_seconds = settings.consumer_iterator_backoff_ms / 1000
    min_bytes = (
        instance.config.min_bytes if instance.config.min_bytes is not None else settings.fetch_min_bytes
    )
    ends = monotonic() + wanted.timeout_ms / 1000
    pause_seconds = _FIRST_PAUSE_SECONDS
    quiet_since = monotonic()
    while not wanted.gone():
        if not instance.unread:
            instance.unread.extend(_without_errors(instance.poll(_POLLED_RECORDS_MAX)))
        if instance.unread:
            before = len(found.texts)
            if not await _take(instances, instance, wanted, found):
                return
            if len(found.texts) > before:
                pause_seconds = _FIRST_PAUSE_SECONDS
                quiet_since = monotonic()
            if 0 <= min_bytes <= found.size_bytes and found.texts:
                return
            await asyncio.sleep(0)
            if monotonic() >= ends:
                return
            continue
        now = monotonic()
        if now >= ends or (min_bytes < 0 and found.texts and now - quiet_since >= backoff_seconds):
            return
        await asyncio.sleep(min(pause_seconds, ends - now))
        pause_seconds = min(2 * pause_seconds, backoff_seconds)
    raise ConnectionResetError("the client has gone")


async def _take(instances: Instances, instance: Instance, wanted: ReadRequest, found: Records) -> bool:
    """Move records from `unread` to the response; False if the response is full."""
    batch: list[Message] = []
    size_bytes = found.size_bytes
    full = False
    for message in instance.unread:
        message_bytes = len(message.key() or b"") + len(message.value() or b"")
        if size_bytes + message_bytes >= wanted.max_bytes and (found.texts or batch):
            full = True
            break
        if batch and size_bytes + message_bytes > found.size_bytes + _TURN_BYTES_MAX:
            break
        held_bytes = _held_bytes(message_bytes)
        if not instances.unsent.try_take(held_bytes):
            full = bool(found.texts or batch)
            break
        found.held_bytes += held_bytes
        size_bytes += message_bytes
        batch.append(message)
    if not batch:
        if not full:
            await asyncio.sleep(instances.settings.consumer_iterator_backoff_ms / 1000)
        return not full
    texts, problem = await _texts(instances.schemas, batch, wanted)
    for message, text in zip(batch, texts, strict=False):
        if not instance.unread or instance.unread[0] is not message:
            return False  # taken away meanwhile, with its partition
        instance.unread.popleft()
        place = place_of(message)
        found.first.setdefault(place, offset_of(message))
        found.last[place] = offset_of(message)
        found.size_bytes += len(message.key() or b"") + len(message.value() or b"")
        found.texts.append(text)
        expected_bytes = _held_bytes(len(message.key() or b"") + len(message.value() or b""))
        more_bytes = len(text) + _TEXT_OVERHEAD_BYTES - expected_bytes
        if more_bytes > 0:  # a schema's names of fields, headers, a long topic
            instances.unsent.charge(more_bytes)
            found.held_bytes += more_bytes
        found.text_bytes += len(text)
    if problem is not None:
        if not found.texts:
            raise problem
        return False
    return not full


def _held_bytes(message_bytes: int) -> int:
    """What the text of a record takes, where it is base64 with a short topic."""
    return message_bytes * 4 // 3 + _RECORD_OVERHEAD_BYTES


def _without_errors(polled: Sequence[Message]) -> list[Message]:
    """The records among what was polled. HttpProblem for an error that does not pass by itself."""
    records = []
    for each in polled:
        error = each.error()
        if error is None:
            records.append(each)
        elif error.code() not in _IGNORED and not records:
            raise request_problem(problem_of(error))
    return records


async def _texts(
    schemas: Schemas, batch: Sequence[Message], wanted: ReadRequest
) -> tuple[list[bytes], HttpProblem | None]:
    """JSON text of records, up to one that cannot be read, and why that is so."""
    if wanted.format.schema_type is None:
        return _encoded(batch, wanted, lambda data, is_key, message: to_json_text(wanted.format, data))
    reader = schemas.reader

    def text(data: bytes | None, is_key: bool, message: Message) -> bytes:
        return schema_json_text(wanted.format, reader, data, is_key, message_headers(message))

    return await schemas.in_thread(_encoded, batch, wanted, text)


Text = Callable[[bytes | None, bool, Message], bytes]


def _encoded(
    batch: Sequence[Message], wanted: ReadRequest, text: Text
) -> tuple[list[bytes], HttpProblem | None]:
    from moldau.schemas.registry_client import RegistryError

    texts: list[bytes] = []
    for message in batch:
        try:
            key, value = text(message.key(), True, message), text(message.value(), False, message)
        except (BadData, RegistryError) as problem:
            return texts, _unreadable(message, wanted.format, problem)
        texts.append(
            b'{"topic":%b,"key":%b,"value":%b,"partition":%d,"offset":%d%b}'
            % (
                orjson.dumps(message.topic()),
                key,
                value,
                place_of(message).partition,
                offset_of(message),
                _extras(message, wanted),
            )
        )
    return texts, None


def _extras(message: Message, wanted: ReadRequest) -> bytes:
    """Headers and timestamp, which Confluent's v2 does not have, for who asks for them."""
    found = b""
    if wanted.with_timestamp:
        kind, timestamp_ms = message.timestamp()
        found += b',"timestamp":%b' % (b"null" if kind == TIMESTAMP_NOT_AVAILABLE else b"%d" % timestamp_ms)
    if wanted.with_headers:
        headers = [
            b'{"name":%b,"value":%b}' % (orjson.dumps(name), to_json_text(Format.BINARY, value))
            for name, value in message_headers(message)
        ]
        found += b',"headers":[%b]' % b",".join(headers)
    return found


def _unreadable(message: Message, wanted: Format, problem: Exception) -> HttpProblem:
    from moldau.schemas.registry_client import RegistryError

    passing = isinstance(problem, RegistryError) and not problem.error_code
    code = KAFKA_RETRIABLE_ERROR if passing else KAFKA_ERROR
    place = f"{message.topic()}-{message.partition()}"
    hint = "" if passing else f" Seek to offset {offset_of(message) + 1} to skip it."
    return HttpProblem(
        code,
        f"The record at offset {message.offset()} of {place} cannot be read as {wanted}: {problem}.{hint}",
    )
