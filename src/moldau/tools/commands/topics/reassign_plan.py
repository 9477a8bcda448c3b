"""Plans of reassignments: read from Kafka's JSON, or made for other brokers or another factor. Pure.

    {"version": 1, "partitions": [
        {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/b"]}
    ]}

A plan that is made keeps every replica that may stay, so that few bytes are copied; what is new goes to the
brokers with the fewest replicas, in racks that the partition has not yet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.tools.shared.errors import CommandError, UsageError

Place = tuple[str, int]
ANY_DIRECTORY = "any"


class Plan(NamedTuple):
    """New replicas by partition; by partition and broker the directories that some of them are to lie in."""

    targets: dict[Place, list[int]]
    directories: dict[tuple[Place, int], str]


def parse_plan(text: str) -> Plan:
    """Read the JSON of kafka-reassign-partitions; UsageError says what is wrong with it."""
    try:
        given = json.loads(text)
        rows = given["partitions"]
        if given.get("version", 1) != 1:
            raise UsageError(f"the plan has version {given['version']}: this command knows version 1")
        plan = Plan({}, {})
        for row in rows:
            place = (str(row["topic"]), int(row["partition"]))
            replicas = [int(broker) for broker in row["replicas"]]
            if place in plan.targets:
                raise UsageError(f"the plan names {place[0]}-{place[1]} twice")
            if not replicas or len(set(replicas)) < len(replicas):
                raise UsageError(f"the plan's replicas of {place[0]}-{place[1]} are {replicas}")
            plan.targets[place] = replicas
            _directories(plan, place, replicas, row.get("log_dirs"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            'the plan is not understood: it must be JSON like {"version": 1, "partitions": [{"topic": "t", '
            f'"partition": 0, "replicas": [1, 2]}}]}} ({type(error).__name__}: {error})'
        ) from None
    if not plan.targets:
        raise UsageError("the plan names no partition")
    return plan


def _directories(plan: Plan, place: Place, replicas: Sequence[int], paths: Any) -> None:
    if paths is None:
        return
    if len(paths) != len(replicas):
        raise UsageError(
            f"the plan has {len(paths)} log_dirs for {len(replicas)} replicas of {place[0]}-{place[1]}"
        )
    for broker, path in zip(replicas, paths, strict=True):
        if path != ANY_DIRECTORY:
            plan.directories[place, broker] = str(path)


def plan_json(targets: Mapping[Place, Sequence[int]]) -> dict[str, Any]:
    """The plan as Kafka's tool writes it."""
    rows = [
        {"topic": name, "partition": index, "replicas": list(replicas)}
        for (name, index), replicas in targets.items()
    ]
    return {"version": 1, "partitions": rows}


def spread(
    replicas: Mapping[Place, Sequence[int]],
    chosen: Sequence[Place],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> dict[Place, list[int]]:
    """New replicas for the chosen partitions on the brokers in `racks`; those that stay as they are, are left
    out. `replicas`: of all partitions, which count as load. CommandError when there are too few brokers.
    """
    counts: Counter[int] = Counter(broker for each in replicas.values() for broker in each)
    leaders: Counter[int] = Counter(each[0] for each in replicas.values() if each)
    found: dict[Place, list[int]] = {}
    for place in sorted(chosen):
        present = list(replicas[place])
        wanted = replication_factor or len(present)
        if wanted > len(racks):
            raise CommandError(
                f"{place[0]}-{place[1]} cannot have {wanted} replicas on {len(racks)} brokers: name more "
                "brokers or start some"
            )
        target = _kept([broker for broker in present if broker in racks], wanted, racks)
        while len(target) < wanted:
            taken = {racks[broker] for broker in target} - {None}
            free = [broker for broker in sorted(racks) if broker not in target]
            target.append(min(free, key=lambda broker: (racks[broker] in taken, counts[broker], broker)))
            counts[target[-1]] += 1
        counts.subtract(broker for broker in present if broker not in target)
        if present[0] not in target:
            first = min(target, key=lambda broker: (leaders[broker], target.index(broker)))
            leaders[first] += 1
            leaders[present[0]] -= 1
            target = [first, *(broker for broker in target if broker != first)]
        if target != present:
            found[place] = target
    return found


def _kept(staying: Sequence[int], wanted: int, racks: Mapping[int, str | None]) -> list[int]:
    """At most so many of those that may stay, from as many racks as there are; the first stays first."""
    kept = list(staying)
    while len(kept) > wanted:
        counts = Counter(racks[broker] for broker in kept)
        spare = max(range(1, len(kept)), key=lambda place: (counts[racks[kept[place]]], place))
        del kept[spare]
    return kept
