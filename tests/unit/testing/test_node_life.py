"""A node that is stopped twice, or while it starts: everything is let go, in order, and once."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_node_metadata import node_on

from moldau.broker.log.startup import Startup
from moldau.broker.metadata.lock import LOCK_NAME
from moldau.common.core.files import OsFiles
from moldau.common.protocol.errors import ErrorCode


def is_free(folder: Path) -> bool:
    """Whether no broker holds the folder's locks."""
    files = OsFiles()
    for name in (".lock", LOCK_NAME):
        path = folder / name
        if path.exists():
            fd = files.open(str(path))
            try:
                if not files.lock(fd):
                    return False
            finally:
                files.close(fd)
    return True


def run(main: Any) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def test_a_second_stop_waits_for_the_first_and_leaves_its_order_alone(tmp_path: Path) -> None:
    async def main() -> None:
        node = node_on(tmp_path)
        await node.start()
        order: list[str] = []
        settle, close = node.group_commit.settle, node.logs.close

        async def slow_settle() -> None:
            await asyncio.sleep(0)
            await settle()
            order.append("settled")

        def noted_close(**how: Any) -> None:
            order.append("logs closed" if how["clean"] else "logs closed uncleanly")
            close(**how)

        node.group_commit.settle = slow_settle  # type: ignore[method-assign]
        node.logs.close = noted_close  # type: ignore[method-assign]
        first = asyncio.ensure_future(node.stop())
        second = asyncio.ensure_future(node.stop(clean=False))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([first, second])
        await node.stop()
        assert order == ["settled", "logs closed"]
        assert is_free(tmp_path)

    run(main())


@pytest.mark.parametrize("call_off", [asyncio.Task.cancel, None])
def test_a_start_that_is_called_off_in_recovery_holds_the_folder_until_its_thread_is_done(
    tmp_path: Path,
    call_off: Callable[[asyncio.Task[None]], bool] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        node = node_on(tmp_path)
        loads, goes_on = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        load = Startup.load

        def waiting(*arguments: Any) -> None:
            loop.call_soon_threadsafe(loads.set)
            goes_on.wait(30)
            load(*arguments)

        monkeypatch.setattr(Startup, "load", waiting)
        start = asyncio.ensure_future(node.start())
        await loads.wait()
        stop = None
        if call_off is not None:
            call_off(start)
        else:
            stop = asyncio.ensure_future(node.stop())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not is_free(tmp_path)  # the thread still writes there
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await start
        if stop is not None:
            await stop
        assert is_free(tmp_path)
        assert node.phase != "RUNNING"
        monkeypatch.undo()
        again = node_on(tmp_path)
        await again.start()
        await again.stop()

    run(main())


def test_a_stop_before_the_start_does_not_count_for_the_one_after_it(tmp_path: Path) -> None:
    async def main() -> None:
        node = node_on(tmp_path)
        await node.stop()
        await node.start()
        assert not is_free(tmp_path)
        await node.stop()
        assert is_free(tmp_path)

    run(main())


def test_a_change_that_is_written_while_the_broker_stops_touches_no_part_that_has_stopped(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        node = node_on(tmp_path)
        await node.start()
        store: Any = node.controller._store
        offload, goes_on = store._offload, asyncio.Event()

        async def slow(blocking: Callable[[], None]) -> None:
            await goes_on.wait()
            await offload(blocking)

        store._offload = slow
        creating = asyncio.ensure_future(node.controller.auto_create_topics(["late"]))
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(node.stop())
        for _ in range(100):  # turns of the loop, until only the store is waited for
            await asyncio.sleep(0)
        assert [name for name, _ in node.stops.parts] == ["workers", "monitoring", "addresses"]
        goes_on.set()
        await stopping
        (result,) = await creating
        assert result.outcome.error_code is ErrorCode.NONE
        assert not (tmp_path / "late-0").exists()  # its turn comes with the next start
        again = node_on(tmp_path)
        await again.start()
        assert again.replicas.partition("late", 0) is not None
        await again.stop()

    run(main())
