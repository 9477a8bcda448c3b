"""What each broker, asked alone, believes about leaders: when all is healed they must come to agree.

A client library asks any broker, and hides one that has stopped following the metadata; so each is asked here
by hand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from moldau.client.connection import Connection
from moldau.client.errors import ClientError
from moldau.client.options import ClientOptions
from moldau.common.protocol.declare import Message
from moldau.common.protocol.messages.metadata import MetadataRequest

VERSION = 9
TIMEOUT_S = 10.0
View = dict[tuple[str, int], tuple[int, int, tuple[int, ...]]]
"""Leader, leader epoch and in-sync set of each partition."""


def view_of(address: str) -> View | str:
    """One broker's view, or why there is none."""
    host, _, port = address.partition(":")
    try:
        answer = _ask(host, int(port), MetadataRequest(topics=None), VERSION)
    except (ClientError, OSError) as failure:
        return str(failure)
    return {
        (topic.name, each.partition_index): (each.leader_id, each.leader_epoch, tuple(sorted(each.isr_nodes)))
        for topic in answer.topics
        for each in topic.partitions
    }


def ask(addresses: Sequence[str], request: Message, version: int) -> Any:
    """The answer of the first broker that gives one; None if none does."""
    for address in addresses:
        host, _, port = address.partition(":")
        try:
            return _ask(host, int(port), request, version)
        except (ClientError, OSError):
            continue
    return None


def disagreement(addresses: list[str], timeout_s: float) -> str:
    """Wait until all brokers have the same view; "" then, else who differs in what."""
    deadline = time.monotonic() + timeout_s
    while True:
        views = [view_of(address) for address in addresses]
        if isinstance(views[0], dict) and all(view == views[0] for view in views):
            return ""
        if time.monotonic() > deadline:
            return "; ".join(
                f"{at} sees {_shown(view, views[0])}" for at, view in zip(addresses, views, strict=True)
            )
        time.sleep(0.1)


def _shown(view: View | str, first: View | str) -> str:
    if isinstance(view, str) or isinstance(first, str) or view is first:
        return str(view)[:600]
    return str({place: row for place, row in view.items() if row != first.get(place)})[:600]


def _ask(host: str, port: int, request: Message, version: int) -> Any:
    options = ClientOptions(request_timeout_seconds=TIMEOUT_S, connect_timeout_seconds=TIMEOUT_S)
    connection = Connection(host, port, options)
    try:
        return connection.ask(request, at_most=version)
    finally:
        connection.close()
