"""A process that commits offsets for a few groups, over and over, so that `__consumer_offsets` gets long.

    python -m torture.offsets_load '{"address": ..., "name": "o", ...}'

Each line of its ledger is {"ask": [group, offset]} before and {"told": [group, offset]} after. The latest
offset of a group is the last that was told, or one asked for after that.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from raw_client import Disconnected, RawClient

from torture.ledger import lines
from torture.seeds import generator

OFFSET_COMMIT, FIND_COORDINATOR = 8, 10
PATIENCE_S = 60.0
# Long commits fill a segment sooner: it cannot be made smaller than a megabyte.
NOTE = "n" * 3500


@dataclass(frozen=True)
class OffsetsPlan:
    """What it does, as its command line says it."""

    address: str
    name: str
    seed: int
    topic: str
    groups: int
    commits: int
    ledger: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def run(plan: OffsetsPlan) -> None:
    """Commit rising offsets; an answer that did not come is asked for again with the next one."""
    draw = generator(plan.seed, plan.name)
    file = os.open(plan.ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(kind: str, group: str, offset: int) -> None:
        os.write(file, json.dumps({kind: [group, offset]}).encode() + b"\n")

    client: RawClient | None = None
    for offset in range(plan.commits):
        group = f"keeper-{draw.randrange(plan.groups)}"
        write("ask", group, offset)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if client is None:
                    client = RawClient(plan.address)
                    # Asking for a coordinator is what makes a broker create `__consumer_offsets`.
                    client.call(FIND_COORDINATOR, 2, key=group, key_type=0)
                if _commit(client, plan.topic, group, offset):
                    break
            except (OSError, Disconnected):
                client = None
            if time.monotonic() > deadline:
                raise TimeoutError(f"{group} cannot commit {offset}")
            time.sleep(0.02)
        write("told", group, offset)


def _commit(client: RawClient, topic: str, group: str, offset: int) -> bool:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": NOTE,
    }
    answer = client.call(
        OFFSET_COMMIT,
        7,
        group_id=group,
        generation_id=-1,
        member_id="",
        topics=[{"name": topic, "partitions": [partition]}],
    )
    return not int(answer.topics[0].partitions[0].error_code)


def expected(path: Path) -> dict[str, tuple[int, set[int]]]:
    """Of each group the last offset that was told, and those asked for since."""
    found: dict[str, tuple[int, set[int]]] = {}
    for line in lines(path):
        if "ask" in line:
            group, offset = line["ask"]
            found.setdefault(group, (-1, set()))[1].add(offset)
        else:
            group, offset = line["told"]
            found[group] = (offset, set())
    return found


def judge_groups(wanted: Mapping[str, tuple[int, set[int]]], found: Mapping[str, int]) -> list[str]:
    """Groups that do not stand where they were put."""
    return [
        f"{group} stands at {found.get(group, -1)}, expected {told} or one of {sorted(asked)}"
        for group, (told, asked) in wanted.items()
        if found.get(group, -1) != told and found.get(group, -1) not in asked
    ]


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    run(OffsetsPlan(**json.loads(sys.argv[1])))
