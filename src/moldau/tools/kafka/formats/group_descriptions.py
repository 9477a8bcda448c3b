"""kafka-consumer-groups --describe: tables of offsets, members or states, with Kafka's columns and widths."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.groups import Group, Member, Place, committed_offsets, end_offsets
from moldau.client.admin.topics import Broker

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

_WIDTH = 15
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def remark(group: Group) -> None:
    """Say on standard error that a group has no members, or that they are being assigned."""
    if group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)


def print_offsets(cluster: Cluster, groups: Sequence[Group], *, verbose: bool) -> None:
    """Print a table for each group: the partitions of members, then those without one."""
    for group in groups:
        remark(group)
        rows = _offset_rows(cluster, group)
        if not rows:
            continue
        heading = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        heading += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
        table = [heading, *rows]
        widths = [_wide(table, 0), _wide(table, 1), 10, 15, 15, 15, 15, _wide(table, 7), _wide(table, 8), 0]
        _print(table, widths, left_out=() if verbose else (3,))


def _offset_rows(cluster: Cluster, group: Group) -> list[list[str]]:
    offsets = committed_offsets(cluster, group.group_id)
    owners: dict[Place, Member | None] = {}
    for member in sorted(group.members, key=lambda one: -len(one.assignment)):
        owners |= dict.fromkeys(member.assignment, member)
    owners |= dict.fromkeys([place for place in offsets if place not in owners])
    ends = end_offsets(cluster, owners)
    rows = []
    for place, owner in owners.items():
        mine, end = offsets.get(place), ends.get(place)
        rows.append(
            [
                group.group_id,
                place[0],
                str(place[1]),
                _shown(None if mine is None else mine.leader_epoch),
                _shown(None if mine is None else mine.offset),
                _shown(end),
                _shown(None if mine is None or end is None else end - mine.offset),
                "-" if owner is None else owner.member_id,
                "-" if owner is None else owner.host,
                "-" if owner is None else owner.client_id,
            ]
        )
    return rows


def print_members(groups: Sequence[Group], *, verbose: bool) -> None:
    """Print a table of each group's members."""
    named = any(member.instance_id for group in groups for member in group.members)
    left_out = (() if named else (2,)) + (() if verbose else (6, 7, 8, 9))
    for group in groups:
        remark(group)
        heading = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
        heading += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        table = [heading, *(_member_row(group, each) for each in group.members)]
        widths = [_wide(table, 0), _wide(table, 1), _wide(table, 2, 17), _wide(table, 3), _wide(table, 4), 15]
        widths += [15, _wide(table, 7, 20), 15, _wide(table, 9, 20)]
        _print(table, widths, left_out, end="" if verbose else " ")


def _member_row(group: Group, member: Member) -> list[str]:
    return [
        group.group_id,
        member.member_id,
        member.instance_id or "-",
        member.host,
        member.client_id,
        str(len(member.assignment)),
        _shown(member.epoch),
        _assignment(member.assignment),
        _shown(None if member.epoch is None else group.assignment_epoch),
        _assignment(member.target or ()),
    ]


def _assignment(places: Iterable[Place]) -> str:
    """Write partitions as `topic:0,1;other:0`, a dash for none."""
    topics: dict[str, list[str]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(found)}" for topic, found in topics.items()) or "-"


def print_states(groups: Sequence[Group], *, verbose: bool) -> None:
    """Print a table of each group's coordinator and state."""
    for group in groups:
        remark(group)
        heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH"]
        heading += ["TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
        row = [
            group.group_id,
            _coordinator(group.coordinator),
            group.assignor or "-",
            group.state,
            _shown(group.epoch),
        ]
        row += [_shown(group.assignment_epoch), str(len(group.members))]
        widths = [_wide([row], 0), _wide([row], 1, 25), 20, 20, 15, 25, 0]
        _print([heading, row], widths, () if verbose else (4, 5))


def _coordinator(broker: Broker) -> str:
    known = f"  ({broker.broker_id})" if broker.broker_id >= 0 else ""
    return f"{broker.host}:{broker.port}{known}"


def _wide(table: Sequence[Sequence[str]], column: int, minimum: int = _WIDTH) -> int:
    return max(minimum, *(len(row[column]) for row in table))


def _print(
    table: Sequence[Sequence[str]], widths: Sequence[int], left_out: Sequence[int], end: str = ""
) -> None:
    print()
    for row in table:
        cells = [f"{cell:<{widths[index]}}" for index, cell in enumerate(row) if index not in left_out]
        print(" ".join(cells) + end)


def _shown(number: int | None) -> str:
    return "-" if number is None else str(number)
