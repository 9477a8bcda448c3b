"""Shell completion of topics, groups, and resources with settings.

Tab must answer fast: a broker that does not accept a connection at once is given up, and so is a slow
response. On any failure nothing is offered and nothing is printed: a message would land in the line being
typed.

The broker comes from the line being typed (--bootstrap-server, -X), else MOLDAU_BOOTSTRAP, else the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from moldau.tools.shared.options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

CONNECT_SECONDS = 0.5
ANSWER_SECONDS = 2.0
INTERNAL = "__"
"""Internal topics begin so; they are offered once this much is typed."""


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin with what is typed."""
    return _offered(ctx, incomplete, _topics)


def topics_to_reset(ctx: typer.Context, incomplete: str) -> list[str]:
    """The same, with partitions after the name (`orders:0,1`)."""
    return [] if ":" in incomplete else topics(ctx, incomplete)


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups that begin with what is typed."""
    return _offered(ctx, incomplete, _groups)


def kinds(incomplete: str) -> list[str]:
    """The kinds of resources that have settings."""
    return [kind for kind in ("topic", "broker", "group") if kind.startswith(incomplete)]


def named_of_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Resources of the kind that was typed before."""
    kind = str(ctx.params.get("kind") or "").rstrip("s")
    asked = {"topic": _topics, "group": _groups, "broker": _brokers}.get(kind)
    return _offered(ctx, incomplete, asked) if asked else []


def _offered(ctx: typer.Context, incomplete: str, ask: Callable[[Cluster], Iterable[str]]) -> list[str]:
    try:
        with _cluster(ctx) as cluster:
            found = list(ask(cluster))
    except Exception:  # no answer, or an error: nothing to offer
        return []
    return sorted(
        name
        for name in found
        if name.startswith(incomplete) and (not name.startswith(INTERNAL) or incomplete.startswith("_"))
    )


def _cluster(ctx: typer.Context) -> Cluster:
    from moldau.client.cluster import Cluster
    from moldau.tools.shared.connection import client_options, parse_address, servers_text
    from moldau.tools.shared.options import COMMAND_CONFIG_VARIABLE, parse_assignments, read_client_file

    given = ctx.params.get("bootstrap")
    servers = str(given or os.environ.get("MOLDAU_BOOTSTRAP") or DEFAULT_BOOTSTRAP)
    file = ctx.params.get("command_config") or os.environ.get(COMMAND_CONFIG_VARIABLE)
    settings = {
        **(read_client_file(file) if file else {}),
        **parse_assignments(ctx.params.get("client_settings"), "-X"),
    }
    once = replace(
        client_options(settings, ANSWER_SECONDS),
        connect_timeout_seconds=CONNECT_SECONDS,
        api_timeout_seconds=0.0,
    )
    return Cluster(servers_text([parse_address(part) for part in servers.split(",") if part.strip()]), once)


def _topics(cluster: Cluster) -> Iterable[str]:
    from moldau.client.admin.routing import metadata

    return [each.name for each in metadata(cluster).topics if each.name]


def _brokers(cluster: Cluster) -> Iterable[str]:
    from moldau.client.admin.routing import metadata

    return ["default", *(str(each.node_id) for each in metadata(cluster, []).brokers)]


def _groups(cluster: Cluster) -> Iterable[str]:
    from moldau.client.admin.groups import list_groups

    return [each.group_id for each in list_groups(cluster)]
