"""The broker under test: started, killed and started again on the same data and port.

`MOLDAU_TEST_BROKER=kafka` puts Apache Kafka in its place, to see whether a scenario is right in the first
place. Only the broker's own process is killed, never its children: a cleaning process that outlives its
broker and goes on writing beside the next one is a danger that must be met here. A child that does not end
soon by itself is a complaint (`living_children`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from bench.brokers import KINDS

KIND = os.environ.get("MOLDAU_TEST_BROKER", "moldau")

# Short intervals, so that what the clock does happens within a round; everything else is as shipped.
SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "auto.create.topics.enable": "false",
}
# A cleaning process comes and goes; this long is waited for one that shall be killed.
CHILD_WITHIN_S = 1.0
# What a broker must never say, whatever was killed. (Apache Kafka's own words are not judged.)
ALARM = re.compile(r"Traceback|\bCRITICAL\b|\bERROR\b")


class Victim:
    """One broker with a data folder of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str], kind: str = KIND) -> None:
        self.broker = KINDS[kind](folder, {**SETTINGS, **settings})
        self.kind = kind
        self.start_s = 0.5
        self.deaths = 0
        self._past_pids: list[int] = []

    @property
    def address(self) -> str:
        return self.broker.address

    def start(self) -> None:
        """Start it and wait for its port; remembers how long the quickest start took."""
        began = time.monotonic()
        self.broker.start()
        self.start_s = time.monotonic() - began

    def kill(self) -> None:
        """kill -9, of this process alone."""
        self._past_pids.append(self.broker.pid)
        self.broker.kill()
        self.deaths += 1

    def kill_while_starting(self, fraction: float) -> None:
        """Start it and kill it after this fraction of a normal start (1.0: just when it begins to listen)."""
        self.broker.spawn()
        time.sleep(fraction * self.start_s)
        self.kill()

    def kill_child(self, choice: float) -> bool:
        """kill -9 one of its child processes, as soon as it has any; `choice` in [0, 1) says which."""
        deadline = time.monotonic() + CHILD_WITHIN_S
        while not (found := _processes_of(self.broker.pid) - {self.broker.pid}):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.kill(sorted(found)[int(choice * len(found))], signal.SIGKILL)
        return True

    def stop(self) -> None:
        self._past_pids.append(self.broker.pid)
        self.broker.stop()

    def living_children(self) -> list[int]:
        """Children of brokers that are no more."""
        return sorted(one for pid in self._past_pids for one in _processes_of(pid))

    def end_children(self) -> None:
        """So that none outlives a round."""
        for pid in self.living_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def alarms(self) -> list[str]:
        """Lines of its output that no kill excuses."""
        if self.kind != "moldau" or not self.broker.output.exists():
            return []
        return [line for line in self.broker.output.read_text().splitlines() if ALARM.search(line)]


def _processes_of(session: int) -> set[int]:
    """The living processes of a session; a broker is started as the leader of its own."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state ppid pgrp session ...; the name may hold blanks, so count from its end
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.add(int(entry.parent.name))
    return found
