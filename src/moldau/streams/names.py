"""Names of apps, flows and consumer groups.

An app's and a flow's name become folders, a Spark query's name, and parts of a consumer group's and a
transactional id; so they consist of letters, digits, `-` and `_`. A dot joins them, and is therefore in
neither:

    checkpoints/delays/late_flights      the checkpoint's folder
    streams.delays.late_flights          the consumer group with the flow's offsets
"""

from __future__ import annotations

import re

from moldau.streams.errors import AppError

NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
GROUP_PREFIX = "streams"


def checked_name(name: str, what: str) -> str:
    """The name, if it is valid for an app or a flow."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise AppError(
            f"{name!r} cannot be the name of {what}: letters, digits, - and _ make one, up to 80 of them"
        )
    return name


def name_from_topic(topic: str) -> str:
    """A flow's name from its output topic; dots become dashes."""
    return topic.replace(".", "-")[:80]


def group_of(app: str, flow: str) -> str:
    """The consumer group of the flow."""
    return f"{GROUP_PREFIX}.{app}.{flow}"


def app_and_flow(group: str) -> tuple[str, str] | None:
    """The reverse of `group_of`; None for another group."""
    parts = group.split(".")
    if len(parts) != 3 or parts[0] != GROUP_PREFIX or not all(NAME.fullmatch(part) for part in parts[1:]):
        return None
    return parts[1], parts[2]
