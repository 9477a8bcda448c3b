"""Authorisation in handlers: the checks before they act, and how refused rows are put aside.

    may(broker, session, READ, GROUP, "g")       one resource; with no authorizer set: yes, for one comparison
    granted(...)                                 the items of a list that the client has the right to
    serve_permitted(...)                         serves those topics of a request; adds the others' error rows
    authorized_operations(...)                   the bit field of Metadata and the Describe APIs

Which right each API asks for, and what becomes of what is refused, stands in one table (rights_table.py).
Decisions are the authorizer's (security/authorizer.py), which keeps them until ACLs change. `quiet`: the
audit log is not told, because the client asked for all there is, or because another right will do as well.

Invariant: a handler asks before it looks whether the resource exists, so that a refusal says nothing about
that. Not here: rights of Produce and Fetch rows (produce_request.py, fetch/one_fetch.py), which ask by
themselves.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.session import Session
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer, settled, then
from moldau.common.protocol.operations import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType

ASKED_AT_ONCE = 256
"""A request about more resources is looked through in slices."""

_ALL_OPERATIONS = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS_OF.items()
}

T = TypeVar("T")
ResponseT = TypeVar("ResponseT")
Parts = tuple[list[T], list[T]]
"""The items with the right, and those without."""


def may(
    broker: Broker,
    session: Session,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    quiet: bool = False,
) -> bool:
    """Whether the client may do this to the resource of that name."""
    authorizer = broker.authorizer
    return authorizer is None or authorizer.allows(session, operation, resource_type, name, quiet=quiet)


def may_on_cluster(broker: Broker, session: Session, operation: Operation, *, quiet: bool = False) -> bool:
    """Whether the client may do this to the cluster."""
    authorizer = broker.authorizer
    return authorizer is None or authorizer.allows(
        session, operation, ResourceType.CLUSTER, CLUSTER_NAME, quiet=quiet
    )


def authorized_operations(broker: Broker, session: Session, resource_type: ResourceType, name: str) -> int:
    """What the client may do to the resource, a bit for each operation (1 << its number; KIP-430)."""
    authorizer = broker.authorizer
    if authorizer is None:
        return _ALL_OPERATIONS[resource_type]
    return authorizer.authorized_operations(session, resource_type, name)


def cluster_operations(broker: Broker, session: Session) -> int:
    """What the client may do to the cluster; 0 if it may not describe it, as in Kafka."""
    if not may_on_cluster(broker, session, Operation.DESCRIBE):
        return 0
    return authorized_operations(broker, session, ResourceType.CLUSTER, CLUSTER_NAME)


def apart(
    broker: Broker,
    session: Session,
    operation: Operation,
    resource_type: ResourceType,
    items: Iterable[T],
    name: Callable[[T], str | None],
    *,
    quiet: bool = False,
) -> Generator[None, None, Parts[T]]:
    """The items with the right and those without, in steps. `name` gives an item's resource; None: there is
    no such resource, which needs no right (an unknown topic id).
    """
    permitted: list[T] = []
    refused: list[T] = []
    for item in items:
        resource = name(item)
        if resource is None or may(broker, session, operation, resource_type, resource, quiet=quiet):
            permitted.append(item)
        else:
            refused.append(item)
        yield
    return permitted, refused


def granted(
    broker: Broker,
    session: Session,
    operation: Operation,
    resource_type: ResourceType,
    items: Sequence[T],
    name: Callable[[T], str],
) -> Answer[list[T]]:
    """The items of a list of "all there is" that the client has the right to; the rest goes unnoticed."""
    if broker.authorizer is None:
        return list(items)
    steps = apart(broker, session, operation, resource_type, items, name, quiet=True)
    if len(items) <= ASKED_AT_ONCE:
        return all_steps(steps)[0]

    async def in_slices() -> list[T]:
        permitted, _ = await broker.slow_lane.slices().run(steps)
        return permitted

    return in_slices()


def serve_permitted(
    broker: Broker,
    context: RequestContext,
    request: Any,
    operation: Operation,
    resource_type: ResourceType,
    name: Callable[[Any], str | None],
    refuse: Callable[[Any], Generator[None, None, Any]],
    serve: Callable[[], Answer[ResponseT]],
    nothing: Callable[[], ResponseT],
    *,
    many: bool,
    field: str = "topics",
    rows: str = "topics",
) -> Answer[ResponseT]:
    """Serve the request with those items of its list `field` that the client has the right to.

    The others get the rows that `refuse` makes in steps, at the end of the response's list `rows`. If none
    is left, nobody is asked, and the response is `nothing()` with these rows. `many`: all of this may take
    longer than a slice of the loop's time.
    """
    if broker.authorizer is None:
        return serve()
    items = getattr(request, field)
    steps = apart(broker, context.session, operation, resource_type, items, name)

    def ask(parts: Parts[Any]) -> Answer[ResponseT]:
        permitted, refused = parts
        if not refused:
            return serve()
        setattr(request, field, permitted)
        return serve() if permitted else nothing()

    def add(response: ResponseT, refused: list[Any]) -> Generator[None, None, ResponseT]:
        for item in refused:
            row = yield from refuse(item)
            getattr(response, rows).append(row)
        return response

    async def in_slices() -> ResponseT:
        slices = broker.slow_lane.slices()
        parts = await slices.run(steps)
        return await slices.run(add(await settled(ask(parts)), parts[1]))

    if many:
        return in_slices()
    parts = all_steps(steps)
    return then(ask(parts), lambda response: all_steps(add(response, parts[1])))


@dataclass(frozen=True, slots=True)
class Restricted:
    """A client as the group coordinator sees it where not everybody may see all topics."""

    api_version: int
    client_id: str
    client_host: str
    sees_topic: Callable[[str], bool] | None


def group_client(broker: Broker, context: RequestContext) -> RequestContext | Restricted:
    """The client of this request, for the group coordinator."""
    if broker.authorizer is None:
        return context
    session = context.session

    def sees_topic(name: str) -> bool:
        return may(broker, session, Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True)

    return Restricted(context.api_version, context.client_id, context.client_host, sees_topic)


def one_step(row: Callable[[Any], T]) -> Callable[[Any], Generator[None, None, T]]:
    """A row that is made in one step, for `serve_permitted`."""

    def steps(item: Any) -> Generator[None, None, T]:
        yield
        return row(item)

    return steps
