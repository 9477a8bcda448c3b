"""Work that takes long does not hold up reads, and is dropped when nobody waits for it any more."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from moldau.services.http.context import CLIENT_IS_GONE
from moldau.services.registry.routes.calls import Calls
from moldau.services.rest.schema_choice import Schemas


def calls() -> Calls:
    service: Any = None
    return Calls(service, service)


def test_reads_go_on_beside_forty_comparisons() -> None:
    async def main() -> None:
        made, ends = calls(), Event()
        comparisons = [asyncio.ensure_future(made.compare(ends.wait)) for _ in range(40)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(made.read(lambda: 7), 60) == 7
        ends.set()
        await asyncio.gather(*comparisons)
        made.close()

    asyncio.run(main())


def test_what_waits_is_dropped_when_its_client_leaves() -> None:
    async def main() -> None:
        made, ends, ran, gone = calls(), Event(), [], []
        first = [asyncio.ensure_future(made.compare(ends.wait)) for _ in range(2)]

        async def of_a_client() -> None:
            CLIENT_IS_GONE.set(lambda: bool(gone))
            await made.compare(lambda: ran.append(1))

        waiting = [asyncio.ensure_future(of_a_client()) for _ in range(10)]
        await asyncio.sleep(0)
        gone.append(1)
        ends.set()
        await asyncio.gather(*first)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, ConnectionResetError) for each in outcomes)
        assert not ran
        made.close()

    asyncio.run(main())


def test_the_end_does_not_wait_for_what_waits() -> None:
    async def main() -> None:
        made, ends, ran = calls(), Event(), []
        running = [asyncio.ensure_future(made.compare(ends.wait))]
        waiting = [asyncio.ensure_future(made.compare(lambda: ran.append(1))) for _ in range(40)]
        await asyncio.sleep(0)
        made.close()
        ends.set()
        await asyncio.gather(*running)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in outcomes)
        assert isinstance(made.comparers, ThreadPoolExecutor)
        made.comparers.shutdown(wait=True)
        assert not ran

    asyncio.run(main())


def test_work_by_schemas_ends_with_its_request() -> None:
    async def main() -> None:
        schemas, ran = Schemas({}), []
        CLIENT_IS_GONE.set(lambda: True)
        with pytest.raises(ConnectionResetError):
            await schemas.in_thread(lambda: ran.append(1))
        CLIENT_IS_GONE.set(lambda: False)
        await schemas.in_thread(lambda: ran.append(1))
        assert ran == [1]
        schemas.close()

    asyncio.run(main())
