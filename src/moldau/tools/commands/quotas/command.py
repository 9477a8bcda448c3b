"""`moldau quotas`: how much users, client ids and addresses may use: list, add, remove, explain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import headings, print_json, print_rows, print_table

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.common.access.quota_entities import QuotaEntity

app = typer.Typer(
    no_args_is_help=True,
    help="Show and change how much users, client ids and addresses may use.",
    epilog="Try: moldau quotas add --user alice --producer-byte-rate 1000000   and: moldau quotas list",
)

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
KEYS = (PRODUCE, FETCH, REQUEST, MUTATION, CONNECTION)

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user (the principal's name).")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
Address = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An IP address.")]
DefaultUser = Annotated[
    bool, typer.Option("--default-user", help="Users without a quota of their own, each for itself.")
]
DefaultClientId = Annotated[
    bool, typer.Option("--default-client-id", help="Client ids without a quota of their own.")
]
DefaultAddress = Annotated[bool, typer.Option("--default-ip", help="Addresses without one of their own.")]


class Entity(NamedTuple):
    """Whose quotas."""

    user: User = None
    default_user: DefaultUser = False
    client_id: ClientId = None
    default_client_id: DefaultClientId = False
    ip: Address = None
    default_ip: DefaultAddress = False


@app.command("list")
@connected
def list_(
    connect: Connect,
    entity: Entity = Entity(),
    as_json: Json = False,
) -> None:
    """List quotas: all, or those of a user, client id or address, alone and together with another."""
    from moldau.client.admin.quotas import find_quotas

    parts = _parts(entity)
    with _cluster(connect) as cluster:
        found = find_quotas(cluster, parts, strict=False)
    items = sorted(found.items(), key=_order)
    rows = [{"entity": dict(each), "quotas": _numbers(values)} for each, values in items]
    if as_json:
        print_json(rows)
        return
    used = {key for values in found.values() for key in values}
    headings = {key: key for key in KEYS if key in used}
    table = [{"entity": _shown(each), **_numbers(values)} for each, values in items]
    print_table(table, {"entity": "FOR", **headings}, empty="no quotas")


@app.command()
@connected
def add(
    connect: Connect,
    entity: Entity = Entity(),
    producer_byte_rate: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="What may be produced a second, to a broker."),
    ] = None,
    consumer_byte_rate: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="What may be fetched a second, from each.")
    ] = None,
    request_percentage: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Of a broker's event loop that requests may take."),
    ] = None,
    controller_mutation_rate: Annotated[
        float | None,
        typer.Option(metavar="PARTITIONS", help="Partitions that may be made or deleted a second."),
    ] = None,
    connection_creation_rate: Annotated[
        int | None,
        typer.Option(min=1, metavar="COUNT", help="New connections of an address a second."),
    ] = None,
) -> None:
    """Set quotas of a user, a client id, both together, or an address. They hold at once on every broker."""
    from moldau.client.admin.quotas import alter_quotas

    parts = _one(_parts(entity))
    given: dict[str, float | None] = {
        PRODUCE: producer_byte_rate,
        FETCH: consumer_byte_rate,
        REQUEST: request_percentage,
        MUTATION: controller_mutation_rate,
        CONNECTION: connection_creation_rate,
    }
    values = {key: value for key, value in given.items() if value is not None}
    if not values:
        options = ", ".join(f"--{key.replace('_', '-')}" for key in KEYS)
        raise UsageError(f"no quota is given: name one or more of {options}")
    _check(parts, values)
    with _cluster(connect) as cluster:
        alter_quotas(cluster, parts, values)
    told = ", ".join(f"{key}={_number(value)}" for key, value in values.items())
    print(f"Set {told} for {_shown(tuple(parts.items()))}.")


@app.command()
@connected
def remove(
    connect: Connect,
    quotas: Annotated[
        list[str] | None, typer.Argument(metavar="QUOTA", help="Only these, such as producer_byte_rate.")
    ] = None,
    entity: Entity = Entity(),
) -> None:
    """Remove quotas: all of an entity, or those that are named. Clients that wait for them go on at once."""
    from moldau.client.admin.quotas import alter_quotas, find_quotas

    parts = _one(_parts(entity))
    named = [each.replace("-", "_") for each in quotas or ()]
    for each in named:
        if each not in KEYS:
            raise UsageError(f"{each!r} is no quota: use {', '.join(KEYS)}")
    with _cluster(connect) as cluster:
        (present,) = find_quotas(cluster, parts, strict=True).values() or ({},)
        missing = [each for each in named if each not in present]
        if missing or not present:
            what = missing[0] if missing else "quota"
            raise CommandError(
                f"there is no {what} for {_shown(tuple(parts.items()))}: see `moldau quotas list`"
            )
        gone = dict.fromkeys(named or present)
        alter_quotas(cluster, parts, gone)
    print(f"Removed {', '.join(gone)} of {_shown(tuple(parts.items()))}.")


@app.command()
@connected
def explain(
    connect: Connect,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="The user.")] = "ANONYMOUS",
    client_id: Annotated[str, typer.Option("--client-id", metavar="ID", help="The client id.")] = "",
    as_json: Json = False,
) -> None:
    """Say which quotas a client has, which entity each comes from, and with whom it is shared."""
    from moldau.client.admin.quotas import find_quotas
    from moldau.common.access.quota_entities import CLIENT_KEYS, LimitTable

    with _cluster(connect) as cluster:
        found = find_quotas(cluster, {}, strict=False)
    rows = []
    for key in CLIENT_KEYS:
        decided = LimitTable(found, key).decides(user, client_id)
        if decided is not None:
            entity, (shared_user, shared_client_id), limit = decided
            rows.append(
                {
                    "quota": key,
                    "value": _number(limit),
                    "from": _shown(entity),
                    "shared_by": _sharers(shared_user, shared_client_id),
                }
            )
    columns = headings("quota value from shared_by", shared_by="SHARED BY")
    print_rows(as_json, rows, columns, empty="this client has no quota")


def _sharers(user: str | None, client_id: str | None) -> str:
    if user is None:
        return f"all users with client id {client_id!r}"
    if client_id is None:
        return f"all connections of {user}"
    return f"connections of {user} with client id {client_id!r}"


def _parts(entity: Entity) -> dict[str, str | None]:
    """The entity's parts by type, None for a default. UsageError for contradictions."""
    parts: dict[str, str | None] = {}
    for kind, name, default in (
        ("user", entity.user, entity.default_user),
        ("client-id", entity.client_id, entity.default_client_id),
        ("ip", entity.ip, entity.default_ip),
    ):
        if name is not None and default:
            raise UsageError(f"--{kind} and --default-{kind} exclude each other")
        if name == "":
            raise UsageError(f"--{kind} needs a name; --default-{kind} is for those without one of their own")
        if name is not None or default:
            parts[kind] = name
    if "ip" in parts and len(parts) > 1:
        raise UsageError(
            "a quota is for an address, or for a user and client id: leave out --ip or the others"
        )
    return parts


def _one(parts: dict[str, str | None]) -> dict[str, str | None]:
    if not parts:
        raise UsageError(
            "say whose quota: --user, --client-id, both, or --ip (--default-user, --default-client-id and "
            "--default-ip for those without one of their own)"
        )
    return parts


def _check(parts: Mapping[str, str | None], values: Mapping[str, float]) -> None:
    for key, value in values.items():
        option = f"--{key.replace('_', '-')}"
        if (key == CONNECTION) != ("ip" in parts):
            whose = "addresses (--ip)" if key == CONNECTION else "users and client ids"
            raise UsageError(f"{option} is a quota of {whose}")
        if not value > 0:
            raise UsageError(f"{option} must be above 0; `moldau quotas remove` takes a quota away")


@contextmanager
def _cluster(connect: Connect) -> Iterator[Cluster]:
    """The cluster; who lacks the right is told which one."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.common.protocol.errors import ErrorCode

    try:
        yield connect().cluster()
    except KafkaProblem as problem:
        words = f"the broker refused: {problem.words}"
        if problem.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            words = (
                f"{words.rstrip('.')}; log in as a super user, or as a principal with ALTER_CONFIGS (to see: "
                "DESCRIBE_CONFIGS) on the cluster, with --command-config or -X"
            )
        raise CommandError(words) from None


def _order(item: tuple[QuotaEntity, Any]) -> Any:
    return [(kind, name is not None, name or "") for kind, name in item[0]]


def _numbers(values: Mapping[str, float]) -> dict[str, Any]:
    return {key: _number(values[key]) for key in sorted(values)}


def _shown(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name}" if name is not None else f"default {kind}" for kind, name in entity)


def _number(value: float | None) -> float | int | None:
    return int(value) if value is not None and value == int(value) else value
