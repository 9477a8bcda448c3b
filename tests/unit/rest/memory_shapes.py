"""A program: holds one shape of what clients send or do not read; prints how much the process grew by it and
what the budgets counted, as JSON."""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from moldau.services.http.bodies import parse_json, parsed_bytes, text_bytes
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.kafka.reading import AHEAD_BYTES, Reader
from moldau.services.rest.embedded import Format
from moldau.services.rest.v2 import produce, reading
from moldau.services.rest.v2.record_pieces import RecordPieces
from moldau.services.rest.v3.read_record_json import RecordShower
from moldau.services.rest.v3.read_records import _Tail

MIB = 1024 * 1024
BODY_BYTES = 8 * MIB
PARSED = {
    "lists": b"[]",
    "objects": b"{}",
    "fractions": b"1.5",
    "numbers": b"300",
    "texts": b'"ab"',
    "members": b'{"a":1}',
    "members of lists": b'{"a":[],"b":{}}',
    "wide texts": '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\U0001f600"'.encode(),
    "escaped texts": b'"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\ud83d\\ude00"',
}
RECORDS = {
    "records of a digit": b'{"value":1}',
    "records of nothing": b"{}",
    "records of two texts": b'{"key":"ab","value":"cd"}',
    "records of lists": b'{"key":[[]],"value":[1]}',
}


def process_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


async def parsed(element: bytes) -> tuple[Any, int]:
    body = b"[" + b",".join([element] * (BODY_BYTES // (len(element) + 1))) + b"]"
    counted = parsed_bytes(body)
    return parse_json(body, 100), counted + len(body)


async def schema_text(_: None) -> tuple[Any, int]:
    body = b'{"schema":"' + b"a" * BODY_BYTES + "\U0001f600".encode() + b'"}'
    return parse_json(body, 100, values_max=50_000), len(body) + text_bytes(body)


async def records(element: bytes) -> tuple[Any, int]:
    body = b'{"records":[' + b",".join([element] * (BODY_BYTES // (len(element) + 1))) + b"]}"
    coder = produce._plain_coder(Format.JSON)
    held: list[Any] = []
    for piece in RecordPieces(body, 100):
        held += await produce._sliced(piece, None, coder, coder)
    return held, len(body) + produce.RECORD_HELD_BYTES * len(held)


class Message:
    def __init__(self, offset: int, size_bytes: int) -> None:
        self._offset, self._value = offset, b"%d" % (offset % 10) * size_bytes

    def __len__(self) -> int:
        return len(self._value)

    def error(self) -> None:
        return None

    def key(self) -> None:
        return None

    headers = key

    def value(self) -> bytes:
        return self._value

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1


class Endless:
    """A consumer of a topic whose records never end."""

    def __init__(self, size_bytes: int) -> None:
        self._offset, self._size_bytes = 0, size_bytes

    def consume(self, count: int, timeout: float) -> list[Message]:
        self._offset += count
        return [Message(self._offset - count + each, self._size_bytes) for each in range(count)]


async def tails(size_bytes: int) -> tuple[Any, int]:
    """Twenty that nobody reads: 64 KiB of each leave."""
    budget = ByteBudget(64 * MIB)
    readers: Any = SimpleNamespace(pool=ThreadPoolExecutor(4), unsent=budget)
    call: Any = SimpleNamespace(service=SimpleNamespace(readers=readers))

    async def never(message: Any) -> None:
        await asyncio.Event().wait()

    held = []
    for _ in range(20):
        consumer: Any = Endless(size_bytes)
        tail = _Tail(call, Reader(readers, consumer, {0: 0}), RecordShower(None, "BINARY", "BINARY"), None)  # type: ignore[arg-type]
        held.append((tail, asyncio.ensure_future(tail._send_records(never))))
    before = -1
    while before != budget.used_bytes or not before:
        before = budget.used_bytes
        await asyncio.sleep(0.5)
    return held, budget.used_bytes + 20 * AHEAD_BYTES


async def unread_response(size_bytes: int) -> tuple[Any, int]:
    unread: deque[Any] = deque(Message(each, size_bytes) for each in range(BODY_BYTES // (size_bytes + 60)))
    instance: Any = SimpleNamespace(unread=unread)
    instances: Any = SimpleNamespace(unsent=ByteBudget(256 * MIB), schemas=None)
    wanted = reading.ReadRequest(Format.BINARY, 1000, 10**9)
    found = reading.Records()
    while unread:
        await reading._take(instances, instance, wanted, found)
    return found, instances.unsent.used_bytes


SHAPES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    **{name: (parsed, element) for name, element in PARSED.items()},
    **{name: (records, element) for name, element in RECORDS.items()},
    "a schema": (schema_text, None),
    "tails of large records": (tails, MIB),
    "tails of small records": (tails, 100),
    "an unread response of digits": (unread_response, 1),
    "an unread response of large records": (unread_response, 300_000),
}


async def main(name: str) -> None:
    hold, what = SHAPES[name]

    before = process_bytes()
    held, counted = await hold(what)
    print(json.dumps({"grown": process_bytes() - before, "counted": counted}), flush=True)
    assert held is not None
    os._exit(0)  # tails have threads and tasks


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
