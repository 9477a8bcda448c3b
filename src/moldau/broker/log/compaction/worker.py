"""The compaction worker process: reads jobs from standard input, runs them, answers on standard output.

The broker starts one with its own interpreter (`python -m moldau.broker.log.compaction.worker`) when there is
work. A process and not a thread, because the interpreter runs one thread at a time: cleaning in a thread
would delay every request of the broker by up to 5 ms at every turn. It runs at a lower priority, and with a
high OOM score, so that the kernel kills it before the broker when memory runs out.

It must not outlive the broker: a thread waits for the end of standard input, and checks once a second whether
the parent process is still the same (another process may have inherited the pipe). Then the process exits at
once. Files it has written by then are removed when the log is opened or cleaned again.

Not here: the broker's end of the pipes (process.py), the messages (wire.py).
"""

import contextlib
import os
import queue
import select
import signal
import threading
import traceback
from typing import Any

from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import CleanError, Progress
from moldau.broker.log.compaction.wire import (
    Unframer,
    failure_to_json,
    frame,
    job_from_json,
    result_to_json,
)
from moldau.common.core.files import OsFiles

NICENESS = 10
_OOM_SCORE = "500"
_PARENT_CHECK_SECONDS = 1.0
_READ_BYTES = 1 << 16


class Worker:
    """Jobs in, answers out, one job after the other."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._input_fd = input_fd
        self._output_fd = output_fd
        self._jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._parent = os.getppid()

    def run(self) -> None:
        """Run jobs until the broker is gone."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        while True:
            self._do(self._jobs.get())

    def _do(self, fields: dict[str, Any]) -> None:
        try:
            result = clean(OsFiles(), job_from_json(fields), self._tell, self._cancelled.is_set)
        except Exception as error:
            if not isinstance(error, CleanError | OSError):
                traceback.print_exc()
            self._send({"failure": failure_to_json(error)})
        else:
            self._send({"result": result_to_json(result)})

    def _tell(self, progress: Progress) -> None:
        self._send({"progress": progress})

    def _send(self, message: dict[str, Any]) -> None:
        rest = memoryview(frame(message))
        try:
            while rest:
                rest = rest[os.write(self._output_fd, rest) :]
        except BrokenPipeError:
            os._exit(0)

    def _listen(self) -> None:
        """In a thread of its own: read the broker's messages, and notice when it is gone."""
        unframer = Unframer()
        try:
            while os.getppid() == self._parent:
                if not select.select([self._input_fd], [], [], _PARENT_CHECK_SECONDS)[0]:
                    continue
                data = os.read(self._input_fd, _READ_BYTES)
                if not data:
                    break
                for message in unframer.feed(data):
                    self._heard(message)
        finally:
            os._exit(0)

    def _heard(self, message: dict[str, Any]) -> None:
        if "job" in message:
            # Cleared here and not when the job begins: what cancels this job comes after it.
            self._cancelled.clear()
            self._jobs.put(message["job"])
        else:
            self._cancelled.set()


def main() -> None:
    """The process's entry point."""
    # Ctrl-c in a terminal and the stop of a systemd unit reach every process. They are for the broker, which
    # would log a job as failed whose process was quicker to end.
    for meant_for_the_broker in (signal.SIGINT, signal.SIGTERM):
        signal.signal(meant_for_the_broker, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write(_OOM_SCORE)
    # Whatever prints by mistake must not get among the answers.
    output_fd = os.dup(1)
    os.dup2(2, 1)
    Worker(0, output_fd).run()


if __name__ == "__main__":
    main()
