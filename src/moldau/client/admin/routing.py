"""Which broker a request goes to, and when it is retried.

A request that breaks with its connection is sent again, and so is one whose answer says that another broker
is the controller or coordinator now, or will be soon. `wanted` is what a timeout says could not be
done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from moldau.client.admin.problem import KafkaProblem
from moldau.client.cluster import GROUP, Cluster
from moldau.client.connection import Connection
from moldau.client.errors import ClientError, Retriable, error_words
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_AGAIN = COORDINATOR_MOVES | {ErrorCode.NOT_CONTROLLER}

Codes = Callable[[Any], Iterable[int]]
"""The error codes of a response that decide whether it is asked for again."""


def metadata(cluster: Cluster, names: Iterable[str] | None = None, *, operations: bool = False) -> Any:
    """One Metadata response, of these topics (None: all); the cluster knows its brokers' addresses from then
    on. `operations`: with what this client may do to each topic.
    """
    request = MetadataRequest(
        topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    if operations:
        request.include_topic_authorized_operations = True

    def attempt() -> Any:
        answer = cluster.any_broker().ask(request)
        cluster.learn(answer)
        return answer

    return cluster.persist("read the cluster's metadata", attempt)


def ask_any(cluster: Cluster, request: Message, wanted: str | None = None, **more: Any) -> Any:
    """The response of some broker. `more`: as for `Connection.ask`."""
    return cluster.persist(
        wanted or f"ask for {_api(request)}", lambda: cluster.any_broker().ask(request, **more)
    )


def ask_broker(
    cluster: Cluster,
    broker_id: int,
    request: Message,
    wanted: str | None = None,
    *,
    codes: Codes = lambda _: (),
    at_least: int = 0,
    **more: Any,
) -> Any:
    """The response of one broker, whose address the last metadata named; asked again while its coordinators
    load, as `codes` tell. KafkaProblem (UNSUPPORTED_VERSION) if it does not know the version `at_least`.
    """

    def attempt() -> Any:
        connection = cluster.broker(broker_id)
        if at_least and connection.version_of(type(request)) < at_least:
            raise KafkaProblem(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {broker_id} does not know {_api(request)} version {at_least}: it is too old",
            )
        return _unless_again(connection.ask(request, **more), codes)

    return cluster.persist(wanted or f"ask broker {broker_id} for {_api(request)}", attempt)


def ask_once(cluster: Cluster, broker_id: int, request: Message) -> Any:
    """The response of one broker, None if it does not answer: for what can be done without."""
    try:
        return cluster.broker(broker_id).ask(request)
    except (Retriable, ClientError, OSError):
        return None


def require_broker(cluster: Cluster, broker_id: int) -> None:
    """KafkaProblem (BROKER_NOT_AVAILABLE) if the cluster has no such broker."""
    if broker_id not in {each.node_id for each in metadata(cluster, []).brokers}:
        raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {broker_id}.")


def ask_controller(
    cluster: Cluster, request: Message, codes: Codes, wanted: str | None = None, **more: Any
) -> Any:
    """The response of the broker that takes changes; asked again while it is no longer that."""
    wanted = wanted or f"ask the controller for {_api(request)}"
    return with_controller(cluster, lambda connection: connection.ask(request, **more), codes, wanted)


def with_controller(cluster: Cluster, ask: Callable[[Connection], Any], codes: Codes, wanted: str) -> Any:
    """As `ask_controller`, for a request that depends on the versions that the controller speaks."""

    def attempt() -> Any:
        controller = metadata(cluster, []).controller_id
        connection = cluster.broker(controller) if controller >= 0 else cluster.any_broker()
        return _unless_again(ask(connection), codes)

    return cluster.persist(wanted, attempt)


def ask_coordinator(
    cluster: Cluster, key: str, request: Message, codes: Codes, wanted: str | None = None, kind: int = GROUP
) -> Any:
    """The response of the coordinator of a group or (kind TRANSACTION) a transactional id; asked again while
    it loads or moves.
    """
    wanted = wanted or f"ask the coordinator of {key!r} for {_api(request)}"
    return with_coordinator(cluster, key, lambda connection: connection.ask(request), codes, wanted, kind)


def with_coordinator(
    cluster: Cluster,
    key: str,
    ask: Callable[[Connection], Any],
    codes: Codes,
    wanted: str,
    kind: int = GROUP,
    also: Collection[int] = (),
) -> Any:
    """As `ask_coordinator`, for a request that depends on the versions that the coordinator speaks. `also`:
    more codes for which it is asked again.
    """

    def attempt() -> Any:
        try:
            return _unless_again(ask(cluster.coordinator(key, kind)), codes, also)
        except (Retriable, OSError):
            cluster.forget_coordinator(key, kind)
            raise

    return cluster.persist(wanted, attempt)


def _unless_again(answer: Any, codes: Codes, also: Collection[int] = ()) -> Any:
    for code in codes(answer):
        if code in _AGAIN or code in also:
            raise Retriable(error_words(code), code)
    return answer


def _api(request: Message) -> str:
    return type(request).__name__.removesuffix("Request")
