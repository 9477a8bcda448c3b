"""The broker's end of a compaction worker process: starts it for a job, ends it when idle, starts a new one
after it died.

    idle, no process --run--> process starts, job goes in --answer--> idle, process waits --30 s--> ended
                              |
                              +-- dies --> WorkerLost; the next job starts another

Everything happens on the event loop's thread; the pipes are non-blocking, since a job may be larger than a
pipe holds. When a worker dies (say by the kernel's OOM killer), its job fails with what it last wrote to
standard error. Whether to retry is the caller's decision. `InlineWorker` does the job where it is called, for
tests and tools.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import moldau
from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import Cancelled, CleanJob, Done, OnProgress, Progress, WorkerLost
from moldau.broker.log.compaction.wire import (
    Unframer,
    failure_from_json,
    frame,
    job_to_json,
    result_from_json,
)
from moldau.common.core.files import Files

IDLE_SECONDS = 30.0
WORKER_MODULE = "moldau.broker.log.compaction.worker"
_READ_BYTES = 1 << 16
_LAST_WORDS_BYTES = 2000
_END_SECONDS_MAX = 2.0


class ProcessWorker:
    """A `CleaningWorker` with a process of its own, for an asyncio loop (which may run in any thread)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, idle_seconds: float = IDLE_SECONDS) -> None:
        """Starts nothing yet."""
        self._loop = loop
        self._idle_seconds = idle_seconds
        self._idle_timer: asyncio.TimerHandle | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._job: tuple[OnProgress, Done] | None = None
        self._cancelled = False
        self._outgoing = bytearray()
        self._unframer = Unframer()
        self._last_words = bytearray()

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return self._job is not None

    @property
    def process_id(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process is not None else None

    # -- jobs --------------------------------------------------------------------------------------

    def run(self, job: CleanJob, on_progress: OnProgress, done: Done) -> None:
        """Begin a job; RuntimeError while another runs."""
        if self._job is not None:
            raise RuntimeError("the worker has a job already")
        self._job = (on_progress, done)
        self._cancelled = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        try:
            if self._process is None:
                self._start()
        except OSError as error:
            # The caller must not be called back before it knows that the job has begun.
            message = f"the process that compacts cannot be started: {error}"
            self._loop.call_soon(self._finish, WorkerLost(message))
            return
        self._send({"job": job_to_json(job)})

    def cancel(self) -> None:
        """Stop the running job soon, if any."""
        if self._job is not None and not self._cancelled:
            self._cancelled = True
            self._send({"cancel": True})

    def close(self) -> None:
        """End for good, at once; a running job's `done` gets `Cancelled`."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._end()
        self._finish(Cancelled("compaction is closed"))

    def _finish(self, outcome: Any) -> None:
        """The job, if any, is over."""
        if self._job is None:
            return
        done = self._job[1]
        self._job = None
        if self._cancelled and isinstance(outcome, Exception):
            outcome = Cancelled("the job was told to stop")
        if self._process is not None:
            self._idle_timer = self._loop.call_later(self._idle_seconds, self._end)
        done(outcome)

    # -- the process -------------------------------------------------------------------------------

    def _start(self) -> None:
        root = str(Path(moldau.__file__).parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            # -P: not the working directory's modules, whatever lies there.
            [sys.executable, "-P", "-m", WORKER_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._process = process
        self._outgoing.clear()
        self._unframer = Unframer()
        self._last_words.clear()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(_fd(process.stdout), self._answers_readable)
        self._loop.add_reader(_fd(process.stderr), self._words_readable)

    def _end(self) -> None:
        """Let go of the process, which ends at once; returns when it has."""
        process = self._process
        if process is None:
            return
        self._process = None
        self._loop.remove_writer(_fd(process.stdin))
        self._loop.remove_reader(_fd(process.stdout))
        self._loop.remove_reader(_fd(process.stderr))
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        # A process that hangs in the disk cannot be waited for; it is reaped when another is started.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS_MAX)

    def _lost(self) -> None:
        """The process closed its pipes: it died."""
        process = self._process
        if process is None:
            return
        self._words_readable()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS_MAX)
        how = _how_it_ended(process.returncode)
        words = self._last_words.decode(errors="replace").strip()
        self._end()
        self._finish(WorkerLost(f"the process that compacts {how}" + (f": {words}" if words else "")))

    # -- pipes -------------------------------------------------------------------------------------

    def _send(self, message: dict[str, Any]) -> None:
        self._outgoing += frame(message)
        self._write_some()

    def _write_some(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            written = os.write(_fd(process.stdin), self._outgoing)
        except BlockingIOError:
            written = 0
        except OSError:
            self._outgoing.clear()  # it has died; the end of its answers will say so
            written = 0
        del self._outgoing[:written]
        if self._outgoing:
            self._loop.add_writer(_fd(process.stdin), self._write_some)
        else:
            self._loop.remove_writer(_fd(process.stdin))

    def _answers_readable(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            data = os.read(_fd(process.stdout), _READ_BYTES)
            messages = self._unframer.feed(data)
        except BlockingIOError:
            return
        except ValueError as error:
            self._end()
            self._finish(WorkerLost(f"the process that compacts does not answer as it should: {error}"))
            return
        if not data:
            self._lost()
            return
        for message in messages:
            self._answered(message)

    def _answered(self, message: dict[str, Any]) -> None:
        if "result" in message:
            self._finish(result_from_json(message["result"]))
        elif "failure" in message:
            self._finish(failure_from_json(message["failure"]))
        elif self._job is not None and not self._cancelled:
            self._job[0](Progress(*message["progress"]))

    def _words_readable(self) -> None:
        process = self._process
        if process is None:
            return
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(_fd(process.stderr), _READ_BYTES)
            if not data:
                self._loop.remove_reader(_fd(process.stderr))
        self._last_words += data
        del self._last_words[:-_LAST_WORDS_BYTES]


def _fd(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    return pipe.fileno()


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "has closed its pipes"
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL: by the kernel when memory runs out, or by hand)"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


class InlineWorker:
    """A `CleaningWorker` that does the job where it is called: for tests and tools."""

    busy = False

    def __init__(self, files: Files) -> None:
        self._files = files

    def run(self, job: CleanJob, on_progress: OnProgress, done: Done) -> None:
        """Do the job; `done` is called before this returns."""
        try:
            result = clean(self._files, job, on_progress)
        except Exception as error:
            done(error)
        else:
            done(result)

    def cancel(self) -> None:
        """Nothing ever runs when this is called."""

    def close(self) -> None:
        """Nothing to end."""
