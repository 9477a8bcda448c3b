"""Reassignment under load, with the commands that an administrator types.

    move        all partitions, internal ones too, get other replicas; at times a broker is killed too
    factor      fewer replicas, then as many as before
    cancel      a move that is throttled is called off: the replicas are those of before
    drain       a broker is emptied, stopped and removed, comes back empty, and gets its share again

Each is felt when replicas have changed, or (cancel) had begun to. A command that fails is a failure of the
round: an administrator's plan must go through while clients work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Timer

from moldau.testing import Cluster
from torture.cluster_faults import Faults
from torture.rounds import Failure

MOVE, FACTOR, CANCEL, DRAIN = "move", "factor", "cancel", "drain"
KINDS = (MOVE, FACTOR, CANCEL, DRAIN)
INTERNAL = ("__consumer_offsets", "__transaction_state")
REPLICAS = 3
DONE_WITHIN_S = 180.0
TRICKLE_BYTES_PER_S = 1000
Placement = dict[tuple[str, int], list[int]]


class Moves:
    """Adds these faults to those that a round has. `topics`: whose partitions are moved."""

    def __init__(self, faults: Faults, topics: Iterable[str], folder: Path) -> None:
        self._faults = faults
        self._cluster: Cluster = faults.cluster
        self._topics = [*topics]
        self._plan = folder / "plan.json"
        self._log = folder / "commands.log"

    def kinds(self) -> dict[str, Callable[[], None]]:
        """What each of KINDS does."""
        return {MOVE: self._move, FACTOR: self._factor, CANCEL: self._cancel, DRAIN: self._drain}

    def _move(self) -> None:
        draw = self._faults.draw
        before = self._placement([*self._topics, *INTERNAL])
        victim = draw.choice(self._cluster.node_ids) if draw.random() < 0.5 else 0
        with self._faults.fault("move" + (f", and kill {victim}" if victim else "")):
            self._write_plan({place: self._drawn() for place in before})
            if victim:
                Timer(draw.uniform(0.0, 2.0), self._cluster.kill, (victim,)).start()
                command = self._begin("topics", "reassign", "--plan", str(self._plan), "--wait")
                time.sleep(self._faults.seconds(2.0))
                self._cluster.restart(victim)
                self._end(command)
            else:
                self._run("topics", "reassign", "--plan", str(self._plan), "--wait")
            self._faults.felt = self._placement(before_topics(before)) != before

    def _factor(self) -> None:
        with self._faults.fault("factor"):
            for count in (REPLICAS - 1, REPLICAS):
                self._run("topics", "reassign", *self._topics, "--replication-factor", str(count), "--wait")
                found = self._placement(self._topics)
                self._faults.felt = all(len(replicas) == count for replicas in found.values())
                if not self._faults.felt:
                    raise Failure(f"the replication factor {count} was not reached: {found}")

    def _cancel(self) -> None:
        before = self._placement(self._topics)
        wanted = {}
        for place, replicas in before.items():
            spare = next(each for each in self._cluster.node_ids if each not in replicas)
            wanted[place] = [spare, *replicas[1:]]
        with self._faults.fault("cancel"):
            self._write_plan(wanted)
            rate = str(TRICKLE_BYTES_PER_S)
            self._run("topics", "reassign", "--plan", str(self._plan), "--throttle", rate)
            time.sleep(self._faults.seconds(1.0))
            self._faults.felt = any(
                len(replicas) > REPLICAS for replicas in self._placement(self._topics).values()
            )
            self._run("topics", "reassign", *self._topics, "--cancel")
            self._run("topics", "reassign", "--status")
            after = self._placement(self._topics)
            if after != before:
                raise Failure(f"moves were called off, but replicas are {after}; they were {before}")

    def _drain(self) -> None:
        node = self._faults.leader()
        with self._faults.fault(f"drain {node}"):
            self._run("brokers", "drain", str(node))
            every = self._placement([*self._topics, *INTERNAL])
            if held := [place for place, replicas in every.items() if node in replicas]:
                raise Failure(f"broker {node} was drained, and still has {held}")
            self._faults.felt = True
            self._cluster.stop(node)
            self._run("brokers", "remove", str(node), "--yes")
            self._cluster.restart(node)
            self._run("brokers", "rebalance")

    def _drawn(self) -> list[int]:
        return self._faults.draw.sample(self._cluster.node_ids, REPLICAS)

    def _placement(self, topics: Iterable[str]) -> Placement:
        found = self._cluster.admin().list_topics(timeout=30).topics
        return {
            (name, number): each.replicas
            for name in topics
            if name in found
            for number, each in sorted(found[name].partitions.items())
        }

    def _write_plan(self, wanted: Placement) -> None:
        rows = [
            {"topic": topic, "partition": number, "replicas": replicas}
            for (topic, number), replicas in wanted.items()
        ]
        self._plan.write_text(json.dumps({"version": 1, "partitions": rows}))

    def _run(self, *words: str) -> None:
        self._end(self._begin(*words))

    def _begin(self, *words: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            log.write(f"$ moldau {' '.join(words)}\n".encode())
        command = [sys.executable, "-m", "moldau", *words, "-b", self._cluster.bootstrap_servers]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _end(self, command: subprocess.Popen[bytes]) -> None:
        try:
            code = command.wait(DONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
            raise Failure(f"a command did not end in {DONE_WITHIN_S:.0f} s: see {self._log}") from None
        if code:
            raise Failure(f"a command ended with {code}: see {self._log}")


def before_topics(placement: Placement) -> list[str]:
    """The topics of a placement."""
    return sorted({topic for topic, _ in placement})
