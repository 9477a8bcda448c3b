"""DeleteTopics, versions 1-6: delete topics, by name or (v6) by id.

    v5  error messages; a topic beyond the client's quota is refused (KIP-599)        v6  topics by id

The client must have Delete on the cluster, or on each topic. Of a topic that it may not describe it does not
learn whether it exists, nor the name of an id.
"""

from collections import Counter
from collections.abc import Generator, Iterable

from moldau.broker.controller.topics import DeletedTopic
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.mutation_quota import mutation_delay_ms, mutations_of
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may, may_on_cluster
from moldau.common.core.ids import ZERO_UUID
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType

_DROPPED_AT_ONCE = 1_000
Asked = tuple[str | None, bytes]
"""A topic's name, or None and its id."""


@handles(DeleteTopicsRequest)
async def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    slices = broker.slow_lane.slices()
    asked = await slices.run(_asked(request, context.api_version))
    limit = mutations_of(context, strict_from=5)
    responses: list[DeletableTopicResult] = []
    if not may_on_cluster(broker, context.session, Operation.DELETE, quiet=True):
        permitted = []
        counts = await slices.run(_counted(asked))
        async for name, topic_id in slices.each(counts):
            refused = _refusal(broker, context, name, topic_id)
            if refused is None:
                permitted += [(name, topic_id)] * counts[name, topic_id]
            else:
                responses.append(refused)
        asked = permitted

    def may_delete(name: str) -> bool:
        session = context.session
        return may_on_cluster(broker, session, Operation.DELETE, quiet=True) or may(
            broker, session, Operation.DELETE, ResourceType.TOPIC, name
        )

    outcomes = await broker.controller.delete_topics(asked, limit, may_delete)
    await slices.run(_add_rows(responses, outcomes, context.api_version))
    # Not `asked`: while the metadata store is away, the decision may come after this answer.
    await slices.run(_emptied(outcomes))
    return DeleteTopicsResponse(throttle_time_ms=mutation_delay_ms(limit), responses=responses)


def _asked(request: DeleteTopicsRequest, version: int) -> Generator[None, None, list[Asked]]:
    asked: list[Asked] = []
    if version >= 6:
        for topic in request.topics:
            asked.append((topic.name, topic.topic_id))
            yield
    else:
        for name in request.topic_names:
            asked.append((name, ZERO_UUID))
            yield
    return asked


def _counted(asked: Iterable[Asked]) -> Generator[None, None, Counter[Asked]]:
    counts: Counter[Asked] = Counter()
    for each in asked:
        counts[each] += 1
        yield
    return counts


def _add_rows(
    responses: list[DeletableTopicResult], outcomes: Iterable[DeletedTopic], version: int
) -> Generator[None, None, None]:
    for deleted in outcomes:
        error_code, message = deleted.outcome
        if error_code is ErrorCode.TOPIC_DELETION_DISABLED and version < 3:
            error_code = ErrorCode.INVALID_REQUEST
        responses.append(
            DeletableTopicResult(
                name=deleted.name, topic_id=deleted.topic_id, error_code=error_code, error_message=message
            )
        )
        yield


def _emptied(rows: list[DeletedTopic]) -> Generator[None, None, None]:
    """Half a million rows that are dropped at once take tens of milliseconds."""
    while rows:
        del rows[-_DROPPED_AT_ONCE:]
        yield


def _refusal(
    broker: Broker, context: RequestContext, name: str | None, topic_id: bytes
) -> DeletableTopicResult | None:
    """The row of a topic that the client may not delete; None if it may, or if no topic has the id."""
    image = broker.metadata.image
    found = image.topic_names.get(topic_id) if name is None else name
    session, kind = context.session, ResourceType.TOPIC
    if found is None or may(broker, session, Operation.DELETE, kind, found):
        return None
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    may_describe = may(broker, session, Operation.DESCRIBE, kind, found, quiet=True)
    if name is not None and may_describe and name not in image.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    told = name or (found if may_describe else None)
    return DeletableTopicResult(name=told, topic_id=topic_id, error_code=code, error_message=code.message)
