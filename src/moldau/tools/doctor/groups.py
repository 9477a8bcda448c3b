"""The last checks: can groups' coordinators be reached, and do groups keep up?"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from moldau.tools.commands.groups.description import describe_groups, list_groups, offset_rows
from moldau.tools.doctor.findings import Report
from moldau.tools.shared.admin import wait
from moldau.tools.shared.errors import CommandError, explain_kafka_failure

if TYPE_CHECKING:
    from moldau.tools.commands.groups.description import GroupDescription
    from moldau.tools.shared.connection import Connection

GROUPS_MAX = 50
"""More than this and only the named group's lag is looked at: each costs requests."""


def check_coordinator(report: Report, connection: Connection, group: str | None) -> bool:
    """Find a group's coordinator: FindCoordinator, then a request to it. Returns whether it answered."""
    name = group or f"moldau-doctor-{uuid.uuid4().hex[:12]}"
    try:
        futures = connection.admin().describe_consumer_groups(
            [name], request_timeout=connection.timeout_seconds
        )
        described = wait(futures[name], connection)
    except KafkaException as failure:
        code = failure.args[0].name()
        if code == "GROUP_AUTHORIZATION_FAILED":
            if group is None:
                report.skip(
                    "coordinator", "this user has no rights on groups of any name: name one with --group"
                )
                return True
            report.fail(
                "coordinator",
                f"this user may not describe the group {name}",
                f"moldau acls add --principal USER --operation describe --group {name}, by an administrator",
            )
            return False
        if code != "GROUP_ID_NOT_FOUND":
            report.fail(
                "coordinator",
                f"the coordinator of group {name} does not answer: {explain_kafka_failure(failure)}",
                "groups need __consumer_offsets: `moldau topics describe __consumer_offsets` shows whether "
                "its partitions have leaders; with too few brokers see offsets.topic.replication.factor",
            )
            return False
        report.ok("coordinator", "answers (the group does not exist yet)" if group else "groups can be made")
        return True
    node = described.coordinator
    where = f"broker {node.id} at {node.host}:{node.port}" if node is not None else "unknown"
    report.ok("coordinator", f"of group {name}: {where}" if group else f"groups can be made ({where})")
    return True


def check_lag(report: Report, connection: Connection, group: str | None) -> None:
    """Sum each group's lag: one that lags and has no member is the finding."""
    try:
        names = [group] if group else [each.name for each in list_groups(connection)]
        if group is None and len(names) > GROUPS_MAX:
            report.skip("lag", f"there are {len(names)} groups: name one with --group")
            return
        if not names:
            report.ok("lag", "there are no groups")
            return
        for described in describe_groups(connection, names):
            _tell_lag(report, connection, described)
    except (KafkaException, CommandError) as failure:
        message = explain_kafka_failure(failure) or str(failure)
        report.fail("lag", message, "list the groups with `moldau groups list`")


def _tell_lag(report: Report, connection: Connection, group: GroupDescription) -> None:
    rows = offset_rows(connection, group)
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    lag = sum(lags)
    facts = f"group {group.name} ({group.state.lower()}, {len(group.members)} members): lag {lag:,}"
    if lag and not group.members:
        report.warn(
            "lag", f"{facts}, and nobody reads", "start its consumers, or delete the group if it is done with"
        )
    elif group.state in ("PreparingRebalancing", "CompletingRebalancing"):
        report.warn(
            "lag",
            facts,
            "it rebalances: if it never ends, members leave again and again (max.poll.interval.ms, "
            "session.timeout.ms)",
        )
    elif lag:
        unread = [
            f"{row['topic']}-{row['partition']}" for row in rows if row["lag"] and not row["consumer_id"]
        ]
        if unread:
            report.warn(
                "lag",
                f"{facts}; no member reads {', '.join(unread[:3])}",
                "its members subscribe to other topics",
            )
        else:
            report.ok("lag", f"{facts}; `moldau groups describe {group.name}` shows it by partition")
    else:
        report.ok("lag", facts)
