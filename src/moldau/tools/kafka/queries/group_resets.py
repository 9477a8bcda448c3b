"""kafka-consumer-groups --reset-offsets: what groups will read next; a dry run unless --execute is given.

The new offsets are decided by the code of `moldau groups reset-offsets` (commands/groups/reset_plan.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.client.admin.groups import Committed, Place, committed_offsets, find_group
from moldau.client.admin.topics import leaders
from moldau.client.errors import UnknownTopic
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.commands.groups.reset_plan import planned_offset, read_plan, write_plan
from moldau.tools.kafka.java.java_times import duration_ms, moment_ms
from moldau.tools.kafka.lines.options import Given
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries.refusals import WORDS
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.offset_range import Bound

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

SCENARIOS = (
    "to-datetime",
    "by-duration",
    "to-latest",
    "to-current",
    "to-earliest",
    "to-offset",
    "shift-by",
    "from-file",
)
INACTIVE = ("Empty", "Dead")
Row = dict[str, object]


def reset(cluster: Cluster, given: Given, groups: Sequence[str]) -> None:
    """Print the plan; carry it out with --execute."""
    rows: list[Row] = []
    for group in groups:
        found = find_group(cluster, group)
        if found is not None and found.state not in INACTIVE:
            print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the current "
                f"state is {found.state}."
            )
            continue
        plan = _plan(cluster, given, group, groups)
        if given.flag("execute") and plan:
            cluster.commit_offsets(group, plan)
        rows += [
            {"group": group, "topic": topic, "partition": index, "new_offset": offset}
            for (topic, index), offset in plan.items()
        ]
    if given.flag("export"):
        write_plan(rows, with_group=len(given.texts("group")) != 1)
        print()
    else:
        print_plan(rows, groups)


def print_plan(rows: Sequence[Row], groups: Sequence[str]) -> None:
    """Print a plan as Kafka does."""
    widths = [max([15, *map(len, groups)]), max([15, *(len(str(row["topic"])) for row in rows)])]
    print()
    for cells in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *(tuple(row.values()) for row in rows)]:
        group, topic, partition, offset = map(str, cells)
        print(f"{group:<{widths[0]}} {topic:<{widths[1]}} {partition:<10} {offset}")


def _plan(cluster: Cluster, given: Given, group: str, groups: Sequence[str]) -> dict[Place, int]:
    offsets = committed_offsets(cluster, group)
    _require_positions(group, offsets)
    if given.flag("from-file"):
        places, target = _from_file(given, group, groups)
        if not places:
            print(f"\nError: No reset plan for group {group} found")
    else:
        places, target = _scope(cluster, given, offsets), _target(given)
    try:
        lows, highs = (cluster.offsets(dict.fromkeys(places, when)) for when in (-2, -1))
    except UnknownTopic:
        existing = cluster.topics()
        missing = [place for place in places if place[0] not in existing]
        if not missing:
            raise
        topic, partition = missing[0]
        raise ToolError(
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
            f"UnknownTopicOrPartitionException: Failed to fetch metadata for partition {topic}-{partition} "
            f"because metadata for topic `{topic}` could not be found"
        ) from None
    moments = _at_moment(cluster, places, target.value, highs) if target.kind == "moment" else {}
    plan = {}
    for place, listed in places.items():
        mine = offsets[place].offset if place in offsets else None
        if target.kind == "shift" and mine is None:
            name = f"{place[0]}-{place[1]}"
            raise CommandLineError(
                f"Cannot shift offset for partition {name} since there is no current committed offset"
            )
        wanted = listed if target.kind == "file" else moments.get(place, target.value)
        plan[place] = planned_offset(target, wanted, mine, lows[place], highs[place])[1]
    return plan


def _require_positions(group: str, offsets: Mapping[Place, Committed]) -> None:
    if any(each.is_ledger for each in offsets.values()):
        raise ToolError(
            f"the offsets of group {group} are the ledger of an exactly-once sink (numbers of micro-batches, "
            "not positions): resetting them would make it write a micro-batch twice"
        )


def _at_moment(
    cluster: Cluster, places: Mapping[Place, int], when_ms: int, highs: Mapping[Place, int]
) -> dict[Place, int]:
    """Return the first offset since then; the log end where there is none, with a warning."""
    found = cluster.offsets(dict.fromkeys(places, max(0, when_ms)))
    chosen = {}
    for place, offset in found.items():
        if offset < 0:
            print(
                f"\nWarn: Partition {place[1]} from topic {place[0]} is empty. "
                "Falling back to latest known offset."
            )
        chosen[place] = highs[place] if offset < 0 else offset
    return chosen


def _target(given: Given) -> Bound:
    if given.flag("to-earliest"):
        return Bound("start")
    if given.flag("to-latest"):
        return Bound("end")
    if given.flag("to-current"):
        return Bound("current")
    if given.flag("to-offset"):
        return Bound("offset", _number(given, "to-offset"))
    if given.flag("shift-by"):
        return Bound("shift", _number(given, "shift-by"))
    if given.flag("to-datetime"):
        return Bound("moment", moment_ms(given.text("to-datetime") or ""))
    if given.flag("by-duration"):
        return Bound("moment", time.time_ns() // 1_000_000 - duration_ms(given.text("by-duration") or ""))
    listed = ", ".join(f"[{each}]" for each in SCENARIOS)
    raise CommandLineError(
        f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]",
        given.parser.line([*given.typed, "--to-earliest"]),
    )


def _number(given: Given, name: str) -> int:
    return given.number(name) or 0


def _scope(cluster: Cluster, given: Given, offsets: Mapping[Place, Committed]) -> dict[Place, int]:
    """Return the partitions to reset: of --topic (explicit ones first), or all that have offsets."""
    if given.flag("all-topics"):
        return dict.fromkeys(offsets, 0)
    if given.flag("topic"):
        return dict.fromkeys(named_partitions(cluster, given.texts("topic")), 0)
    raise CommandLineError(
        "One of the reset scopes should be defined: --all-topics, --topic.",
        given.parser.line([*given.typed, "--all-topics"]),
    )


def explicit_partitions(word: str) -> list[Place]:
    """Expand `orders:0,1`, even if they do not exist; nothing for `orders`. CommandLineError."""
    topic, colon, numbers = word.partition(":")
    if not colon:
        return []
    if not numbers:
        raise CommandLineError(f"Invalid topic arg '{word}', expected topic name and partitions")
    for number in numbers.split(","):
        if not re.fullmatch("[0-9]{1,9}", number):
            raise CommandLineError(f"Invalid partition '{number}' specified in topic arg '{word}''")
    return [(topic, int(number)) for number in numbers.split(",")]


def named_partitions(cluster: Cluster, words: Sequence[str]) -> list[Place]:
    """Expand `orders:0,1` and `orders`. ToolError in Kafka's words for what does not exist."""
    explicit = [place for word in words for place in explicit_partitions(word)]
    whole = [word for word in words if ":" not in word]
    known = leaders(cluster, [*whole, *(topic for topic, _ in explicit)])
    topics = {topic for topic, _ in known}
    if any(topic not in topics for topic in [*whole, *(topic for topic, _ in explicit)]):
        raise ToolError(WORDS[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    if lacking := [f"{topic}-{index}" for topic, index in explicit if (topic, index) not in known]:
        raise ToolError(f'The partitions "{",".join(lacking)}" do not exist')
    explicit = list(dict.fromkeys(sorted(explicit)))
    return [*explicit, *(place for topic in whole for place in known if place[0] == topic)]


def _from_file(given: Given, group: str, groups: Sequence[str]) -> tuple[dict[Place, int], Bound]:
    path = Path(given.text("from-file") or "")
    if not path.is_file():
        raise ToolError(f"java.io.IOException: Unable to read file {path}")
    try:
        listed = read_plan(path, groups)
    except CommandError as problem:
        raise ToolError(str(problem)) from None
    return dict(sorted(listed.get(group, {}).items())), Bound("file")
