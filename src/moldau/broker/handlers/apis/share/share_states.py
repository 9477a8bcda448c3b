"""What the APIs between brokers about share-partitions' states have in common. No API is registered here."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.coordinator.share.state import Key
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.errors import ErrorCode, error_message
from moldau.common.protocol.operations import Operation

if TYPE_CHECKING:
    from moldau.broker.coordinator.share.service import ShareCoordinator


def may_not(broker: Broker, context: RequestContext) -> bool:
    """Whether the client is refused, because it is no broker."""
    return not may_on_cluster(broker, context.session, Operation.CLUSTER_ACTION)


async def asked_by_key(
    broker: Broker,
    coordinator: "ShareCoordinator | None",
    request: Any,
    ask: "Callable[[ShareCoordinator, Key, Any], Answer[Outcome]]",
) -> Iterator[Outcome]:
    """The outcome of each row of the request, in their order; all are asked before the first is waited for.
    Coordinator None: the client may not ask."""
    slices = broker.slow_lane.slices()
    answers: list[Answer[Outcome]] = []
    for topic in request.topics:
        for row in topic.partitions:
            if coordinator is None:
                answers.append(Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            else:
                answers.append(ask(coordinator, Key(request.group_id, topic.topic_id, row.partition), row))
            if slices.spent():
                await slices.next_slice()
    return iter([await settled(answer) for answer in answers])


def complaint(outcome: Outcome) -> str | None:
    """The message that goes with an error."""
    return error_message(outcome.error_code) if outcome.error_code else None
