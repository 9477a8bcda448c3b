"""Comparisons take turns by host, end with their client or the service, and after a limit of steps."""

import asyncio
import json
from threading import Event
from typing import Any

import pytest

from moldau.schemas.compatibility import Level, check
from moldau.schemas.effort import Abandoned, Work, step, working
from moldau.schemas.languages import parse
from moldau.schemas.schema import ParsedSchema, SchemaText, SchemaType, TooComplex
from moldau.services.http.context import CLIENT_HOST, CLIENT_IS_GONE
from moldau.services.registry.routes.calls import Calls
from moldau.services.registry.routes.fair_queue import FairQueue


def calls() -> Calls:
    service: Any = None
    return Calls(service, service)


def schema(language: SchemaType, fields: int) -> ParsedSchema:
    names = range(fields)
    if language is SchemaType.AVRO:
        text = json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": "int"} for n in names]}
        )
    elif language is SchemaType.JSON:
        text = json.dumps({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in names}})
    else:
        text = 'syntax = "proto3"; message M {' + "".join(f"int32 f{n} = {n + 1};" for n in names) + "}"
    return parse(SchemaText(language, text), {})


async def compared(made: Calls, host: str, call: Any) -> Any:
    CLIENT_HOST.set(host)
    return await made.compare(call)


def test_another_hosts_comparison_begins_at_once() -> None:
    async def main() -> None:
        made, ends = calls(), Event()
        of_one = [asyncio.ensure_future(compared(made, "10.0.0.1", ends.wait)) for _ in range(40)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(compared(made, "10.0.0.2", lambda: 7), 60) == 7
        assert not any(each.done() for each in of_one)
        ends.set()
        await asyncio.gather(*of_one)
        made.close()

    asyncio.run(main())


def test_hosts_go_round() -> None:
    async def main() -> None:
        turns, order = FairQueue(1), []

        async def one(host: str) -> None:
            async with turns.turn(host):
                order.append(host)
                await asyncio.sleep(0)

        await asyncio.gather(*(one(host) for host in "aaaaaabbc"))
        assert "".join(order) == "aabcabaaa"

    asyncio.run(main())


def test_a_cancelled_turn_is_given_on() -> None:
    async def main() -> None:
        turns = FairQueue(1)
        begun: list[int] = []

        async def one(number: int) -> None:
            async with turns.turn("a"):
                begun.append(number)
                await asyncio.sleep(0 if number else 3600)

        tasks = [asyncio.ensure_future(one(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()  # it waits
        await asyncio.sleep(0)
        tasks[0].cancel()  # it runs
        await tasks[2]
        assert begun == [0, 2]

    asyncio.run(main())


@pytest.mark.parametrize("language", SchemaType)
def test_parsing_and_comparing_end_when_they_are_abandoned(language: SchemaType) -> None:
    old, new = schema(language, 600), schema(language, 601)
    with pytest.raises(Abandoned), working(Work(lambda: True)):
        schema(language, 600)
    with pytest.raises(Abandoned), working(Work(lambda: True)):
        check(Level.FULL, new, [old])


@pytest.mark.parametrize("language", SchemaType)
def test_all_versions_together_take_a_number_of_steps(language: SchemaType) -> None:
    versions = [schema(language, 100) for _ in range(50)]
    new = schema(language, 99)
    with working(Work(steps_max=1_000)):
        check(Level.BACKWARD, new, versions)
    with pytest.raises(TooComplex, match="takes more than 1000 steps"), working(Work(steps_max=1_000)):
        check(Level.BACKWARD_TRANSITIVE, new, versions)


@pytest.mark.parametrize("by", ["client", "stop"])
def test_what_runs_ends_with_its_client_and_with_the_service(by: str) -> None:
    async def main() -> None:
        made, gone, runs = calls(), [], Event()

        def for_ever() -> None:
            runs.set()
            while True:
                step()

        async def of_a_client() -> None:
            CLIENT_IS_GONE.set(lambda: bool(gone))
            await made.compare(for_ever)

        task = asyncio.ensure_future(of_a_client())
        await asyncio.to_thread(runs.wait)
        if by == "client":
            gone.append(1)
        else:
            made.close()
        with pytest.raises(ConnectionResetError):
            await task
        made.close()

    asyncio.run(main())
