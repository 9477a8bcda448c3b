"""The brokers that may take replicas, with their racks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import error_words

if TYPE_CHECKING:
    from moldau.tools.commands.transactions.routing import Routing


def racks_in_service(routing: Routing) -> dict[int, str | None]:
    """Ask the cluster; brokers that are fenced or away are left out."""
    answer = routing.ask(next(iter(routing.brokers)), DescribeClusterRequest(), 0)
    if answer.error_code:
        raise CommandError(f"the cluster cannot be described: {error_words(answer.error_code)}")
    return {each.broker_id: each.rack for each in sorted(answer.brokers, key=lambda one: int(one.broker_id))}
