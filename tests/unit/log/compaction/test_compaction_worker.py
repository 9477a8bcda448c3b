"""The worker process: jobs and answers over its pipes, its death, its end with the broker's."""

import asyncio
import json
import math
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
import uvloop

from moldau.broker.log.compaction.job import (
    Cancelled,
    CleanError,
    CleaningWorker,
    CleanJob,
    CleanResult,
    LastRecord,
    Progress,
    Source,
    Uncleanable,
    UnreadableBatch,
    WorkerLost,
)
from moldau.broker.log.compaction.process import InlineWorker, ProcessWorker
from moldau.broker.log.compaction.wire import (
    Unframer,
    failure_from_json,
    failure_to_json,
    frame,
    job_from_json,
    job_to_json,
)
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.core.files import OsFiles
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

NAME = f"{0:020d}.log"

pytestmark = pytest.mark.usefixtures("compaction_kernel")


def job_in(directory: Path, *, slow: bool = False, **changes: object) -> CleanJob:
    """A segment of ten records and two keys; `slow` makes it take hours."""
    batches = [build_batch([Record(i, 1, b"%d" % (i % 2), b"v")], base_offset=i) for i in range(10)]
    (directory / NAME).write_bytes(b"".join(batches))
    source = Source(0, 10, sum(map(len, batches)))
    fields = {"io_bytes_per_second": 0.1 if slow else math.inf, "io_buffer_bytes": 100, **changes}
    return CleanJob(str(directory), "t", 0, (source,), 0, 10, 1000, 1000, **fields)  # type: ignore[arg-type]


class Harness:
    """A worker on a running loop, its answers as awaitables."""

    def __init__(self, *, idle_seconds: float = 60.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.worker = ProcessWorker(self.loop, idle_seconds=idle_seconds)
        self.progress: list[Progress] = []
        self.progressed = asyncio.Event()
        self.outcomes = 0

    def begin(self, job: CleanJob) -> "asyncio.Future[CleanResult | Exception]":
        future = self.loop.create_future()

        def done(outcome: CleanResult | Exception) -> None:
            self.outcomes += 1
            future.set_result(outcome)

        def progressed(progress: Progress) -> None:
            self.progress.append(progress)
            self.progressed.set()

        self.worker.run(job, progressed, done)
        return future


def lives(process_id: int) -> bool:
    return Path(f"/proc/{process_id}").exists()


def on_loop(story: Callable[[Harness], Coroutine[None, None, None]], **options: float) -> None:
    """Run the story on a uvloop in a thread that is not the main one, as a broker inside of tests does."""
    trouble: list[BaseException] = []

    async def run() -> None:
        harness = Harness(**options)
        try:
            await asyncio.wait_for(story(harness), 60)
        finally:
            harness.worker.close()
            assert harness.worker.process_id is None

    def thread() -> None:
        try:
            uvloop.run(run())
        except BaseException as error:
            trouble.append(error)

    running = threading.Thread(target=thread)
    running.start()
    running.join()
    if trouble:
        raise trouble[0]


def test_jobs_are_done_one_after_the_other_in_one_process(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        first = harness.begin(job_in(tmp_path))
        process_id = harness.worker.process_id
        assert harness.worker.busy
        with pytest.raises(RuntimeError):
            harness.begin(job_in(tmp_path))
        outcome = await first
        assert isinstance(outcome, CleanResult)
        assert not harness.worker.busy
        assert outcome.groups[0].sources == (0,)
        assert (outcome.cleaned_until_offset, outcome.statistics.records_out) == (10, 2)
        assert (tmp_path / f"{NAME}.cleaned").stat().st_size == outcome.groups[0].size_bytes
        again = await harness.begin(job_in(tmp_path))
        assert isinstance(again, CleanResult)
        assert again.groups == outcome.groups
        assert harness.worker.process_id == process_id

    on_loop(story)


def test_a_job_larger_than_the_pipe_goes_through(tmp_path: Path) -> None:
    aborted = tuple(AbortedTransaction(i, i, i + 5, i) for i in range(20_000))

    async def story(harness: Harness) -> None:
        assert isinstance(await harness.begin(job_in(tmp_path, aborted=aborted)), CleanResult)

    on_loop(story)


def test_a_cancelled_job_stops_and_cleans_up_and_the_process_goes_on(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        for _ in range(3):
            running = harness.begin(job_in(tmp_path, slow=True))
            process_id = harness.worker.process_id
            harness.worker.cancel()
            harness.worker.cancel()
            assert isinstance(await running, Cancelled)
        assert isinstance(await harness.begin(job_in(tmp_path)), CleanResult)
        assert harness.worker.process_id == process_id
        harness.worker.cancel()

    on_loop(story)


@pytest.mark.parametrize("meant_for_the_broker", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_terminal_or_systemd_sends_to_all_does_not_fail_the_job(
    tmp_path: Path, meant_for_the_broker: signal.Signals
) -> None:
    async def story(harness: Harness) -> None:
        running = harness.begin(job_in(tmp_path, io_bytes_per_second=1000.0))
        process_id = harness.worker.process_id
        assert process_id
        await harness.progressed.wait()
        os.kill(process_id, meant_for_the_broker)
        assert isinstance(await running, CleanResult)
        assert isinstance(await harness.begin(job_in(tmp_path)), CleanResult)
        assert harness.worker.process_id == process_id

    on_loop(story)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGABRT])
def test_a_worker_that_is_killed_fails_its_job_and_the_next_gets_a_new_one(
    tmp_path: Path, ending: signal.Signals
) -> None:
    async def story(harness: Harness) -> None:
        running = harness.begin(job_in(tmp_path, slow=True))
        killed = harness.worker.process_id
        assert killed
        os.kill(killed, ending)
        outcome = await running
        assert isinstance(outcome, WorkerLost)
        assert ending.name in str(outcome)
        assert harness.worker.process_id is None
        assert isinstance(await harness.begin(job_in(tmp_path)), CleanResult)
        assert harness.worker.process_id != killed

    on_loop(story)


def test_a_worker_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))

    async def story(harness: Harness) -> None:
        running = harness.begin(job_in(tmp_path))
        assert harness.worker.busy
        outcome = await running
        assert isinstance(outcome, WorkerLost)
        assert "nowhere" in str(outcome)

    on_loop(story)


def test_a_program_that_is_no_worker_is_told_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 'no such module here' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))

    async def story(harness: Harness) -> None:
        outcome = await harness.begin(job_in(tmp_path))
        assert isinstance(outcome, WorkerLost)
        assert "code 3" in str(outcome)
        assert "no such module here" in str(outcome)

    on_loop(story)


def test_failures_arrive_as_what_they_were(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        job = job_in(tmp_path)
        data = bytearray((tmp_path / NAME).read_bytes())
        data[65] ^= 1
        (tmp_path / NAME).write_bytes(data)
        damaged = await harness.begin(job)
        assert isinstance(damaged, Uncleanable)
        assert "wrong crc" in str(damaged)
        (tmp_path / NAME).unlink()
        missing = await harness.begin(job)
        assert isinstance(missing, FileNotFoundError)
        assert missing.filename == str(tmp_path / NAME)

    on_loop(story)


def test_an_idle_process_ends_by_itself(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        await harness.begin(job_in(tmp_path))
        process_id = harness.worker.process_id
        assert process_id
        while harness.worker.process_id is not None:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)
        assert not lives(process_id)
        assert isinstance(await harness.begin(job_in(tmp_path)), CleanResult)

    on_loop(story, idle_seconds=0.05)


def test_closing_ends_the_job_and_the_process_at_once(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        running = harness.begin(job_in(tmp_path, slow=True))
        process_id = harness.worker.process_id
        harness.worker.close()
        assert running.done()
        assert isinstance(running.result(), Cancelled)
        assert process_id
        assert not lives(process_id)
        harness.worker.close()
        assert harness.outcomes == 1

    on_loop(story)


BROKER = """
import asyncio, sys
from moldau.broker.log.compaction.process import ProcessWorker
from moldau.broker.log.compaction.wire import job_from_json
import json
async def main():
    worker = ProcessWorker(asyncio.get_running_loop())
    worker.run(job_from_json(json.loads(sys.argv[1])), lambda _: None, lambda _: None)
    print(worker.process_id, flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


def test_a_broker_that_is_killed_leaves_no_worker_behind(tmp_path: Path) -> None:
    job = json.dumps(job_to_json(job_in(tmp_path, slow=True)))
    broker = subprocess.Popen([sys.executable, "-c", BROKER, job], stdout=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        worker_id = int(broker.stdout.readline())
        worker = os.pidfd_open(worker_id)
    finally:
        broker.kill()
        broker.wait()
        broker.stdout.close()
    try:
        # A pidfd becomes readable when its process has ended.
        assert select.select([worker], [], [], 30)[0]
    finally:
        os.close(worker)


def test_inline_it_is_the_same(tmp_path: Path) -> None:
    outcomes: list[CleanResult | Exception] = []
    worker: CleaningWorker = InlineWorker(OsFiles())
    job = job_in(tmp_path)
    worker.run(job, lambda _: None, outcomes.append)
    (tmp_path / NAME).unlink()
    worker.run(job, lambda _: None, outcomes.append)
    worker.cancel()
    worker.close()
    assert isinstance(outcomes[0], CleanResult)
    assert isinstance(outcomes[1], FileNotFoundError)


# -- the wire --------------------------------------------------------------------------------------


def test_a_job_goes_through_the_pipe_unchanged(tmp_path: Path) -> None:
    job = job_in(
        tmp_path,
        aborted=(AbortedTransaction(1, 2, 3, 4),),
        last_records=(LastRecord(1, 2, 3),),
        io_bytes_per_second=math.inf,
    )
    data = frame({"job": job_to_json(job)})
    source = random.Random(5)
    unframer, messages = Unframer(), []
    rest = data * 3
    while rest:
        size = source.randint(1, 200)
        messages += unframer.feed(rest[:size])
        rest = rest[size:]
    assert [job_from_json(message["job"]) for message in messages] == [job] * 3


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\0\0\0\1x", b"\0\0\0\1\x80", b"\0\0\0\0021}", b"\0\0\0\0011"]
)
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (of several kinds)
        Unframer().feed(data)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Cancelled("x"), Cancelled),
        (Uncleanable("x"), Uncleanable),
        (WorkerLost("x"), WorkerLost),
        (MemoryError(), WorkerLost),
        (OSError(28, "full", "/d"), OSError),
        (KeyError("x"), CleanError),
    ],
)
def test_every_failure_has_a_kind(error: Exception, kind: type[Exception]) -> None:
    again = failure_from_json(failure_to_json(error))
    assert type(again) is kind
    assert kind is not OSError or (again.args == error.args)


def test_a_failure_keeps_the_batch_that_cannot_be_read() -> None:
    batch = UnreadableBatch(42, 51, "no zstd")
    again = failure_from_json(json.loads(json.dumps(failure_to_json(Uncleanable("x", batch)))))
    assert isinstance(again, Uncleanable)
    assert (again.batch, str(again)) == (batch, "x")
