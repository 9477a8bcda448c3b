"""The last checks: can groups' coordinators be reached, and do groups keep up?"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from moldau.client.admin.groups import Group, find_group
from moldau.client.errors import ClientError
from moldau.tools.commands.groups.description import describe_groups, list_groups, offset_rows
from moldau.tools.doctor.findings import Report
from moldau.tools.shared.errors import CommandError, error_name, explain_kafka_failure

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

GROUPS_MAX = 50
"""More than this and only the named group's lag is looked at: each costs requests."""


def check_coordinator(report: Report, connection: Connection, group: str | None) -> bool:
    """Find a group's coordinator: FindCoordinator, then a request to it. Returns whether it answered."""
    name = group or f"moldau-doctor-{uuid.uuid4().hex[:12]}"
    try:
        described = find_group(connection.cluster(), name)
    except (ClientError, OSError) as failure:
        code = error_name(failure)
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
        report.fail(
            "coordinator",
            f"the coordinator of group {name} does not answer: {explain_kafka_failure(failure)}",
            "groups need __consumer_offsets: `moldau topics describe __consumer_offsets` shows whether "
            "its partitions have leaders; with too few brokers see offsets.topic.replication.factor",
        )
        return False
    if described is None:
        report.ok("coordinator", "answers (the group does not exist yet)" if group else "groups can be made")
        return True
    node = described.coordinator
    where = f"broker {node.broker_id} at {node.host}:{node.port}"
    report.ok("coordinator", f"of group {name}: {where}" if group else f"groups can be made ({where})")
    return True


def check_lag(report: Report, connection: Connection, group: str | None) -> None:
    """Sum each group's lag: one that lags and has no member is the finding."""
    try:
        names = [group] if group else [each.group_id for each in list_groups(connection.cluster())]
        if group is None and len(names) > GROUPS_MAX:
            report.skip("lag", f"there are {len(names)} groups: name one with --group")
            return
        if not names:
            report.ok("lag", "there are no groups")
            return
        for described in describe_groups(connection, names):
            _tell_lag(report, connection, described)
    except (ClientError, OSError, CommandError) as failure:
        message = explain_kafka_failure(failure) or str(failure)
        report.fail("lag", message, "list the groups with `moldau groups list`")


def _tell_lag(report: Report, connection: Connection, group: Group) -> None:
    rows = offset_rows(connection.cluster(), group)
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    lag = sum(lags)
    facts = f"group {group.group_id} ({group.state.lower()}, {len(group.members)} members): lag {lag:,}"
    if lag and not group.members:
        report.warn(
            "lag", f"{facts}, and nobody reads", "start its consumers, or delete the group if it is done with"
        )
    elif group.state in ("PreparingRebalance", "CompletingRebalance"):
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
            report.ok("lag", f"{facts}; `moldau groups describe {group.group_id}` shows it by partition")
    else:
        report.ok("lag", facts)
