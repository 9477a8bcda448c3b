"""Shell completion of topics, groups, and resources with settings.

Tab must answer fast: a broker that does not accept a connection at once is given up, and so is a slow
response. On any failure nothing is offered and nothing is printed: a message would land in the line being
typed.

The broker comes from the line being typed (--bootstrap-server, -X), else MOLDAU_BOOTSTRAP, else the default.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

from moldau.tools.shared.options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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


def _offered(ctx: typer.Context, incomplete: str, ask: Callable[[AdminClient], Iterable[str]]) -> list[str]:
    try:
        found = ask(_admin(ctx))
    except Exception:  # no answer, or an error: nothing to offer
        return []
    return sorted(
        name
        for name in found
        if name.startswith(incomplete) and (not name.startswith(INTERNAL) or incomplete.startswith("_"))
    )


def _admin(ctx: typer.Context) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    from moldau.tools.shared.connection import QUIET, librdkafka_settings, parse_address
    from moldau.tools.shared.options import COMMAND_CONFIG_VARIABLE, parse_assignments, read_client_file

    given = ctx.params.get("bootstrap")
    servers = str(given or os.environ.get("MOLDAU_BOOTSTRAP") or DEFAULT_BOOTSTRAP)
    _require_listener([parse_address(part) for part in servers.split(",") if part.strip()])
    file = ctx.params.get("command_config") or os.environ.get(COMMAND_CONFIG_VARIABLE)
    given = parse_assignments(ctx.params.get("client_settings"), "-X")
    extra = librdkafka_settings({**(read_client_file(file) if file else {}), **given})
    settings: dict[str, Any] = {"bootstrap.servers": servers, "logger": QUIET, **extra}
    return AdminClient(settings)


def _require_listener(addresses: list[tuple[str, int]]) -> None:
    """Return when one of the addresses accepts a connection, else raise OSError. librdkafka would retry."""
    refused: OSError = OSError("no address")
    for address in addresses:
        try:
            socket.create_connection(address, timeout=CONNECT_SECONDS).close()
            return
        except OSError as refusal:
            refused = refusal
    raise refused


def _topics(admin: AdminClient) -> Iterable[str]:
    return admin.list_topics(timeout=ANSWER_SECONDS).topics


def _brokers(admin: AdminClient) -> Iterable[str]:
    return ["default", *(str(broker) for broker in admin.list_topics(timeout=ANSWER_SECONDS).brokers)]


def _groups(admin: AdminClient) -> Iterable[str]:
    listed = admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result(ANSWER_SECONDS)
    return [each.group_id for each in listed.valid]
