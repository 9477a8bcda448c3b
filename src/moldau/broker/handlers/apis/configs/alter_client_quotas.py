"""AlterClientQuotas, versions 0-1: set or remove quotas of users, client ids and addresses (KIP-546).

    v1  flexible
Each entity is changed as a whole, or not at all. The client must have AlterConfigs on the cluster. Not here:
which quotas there are, and what they may be (controller/quotas.py).
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from moldau.broker.controller.decision import RECORDS_MAX, TOO_LARGE, Outcome
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    ResponseEntryData,
)
from moldau.common.protocol.operations import Operation

if TYPE_CHECKING:
    from moldau.broker.controller.quotas import AlterQuotas

_PARTS_MAX = 4  # an entity of more parts is refused whatever they are


@handles(AlterClientQuotasRequest)
async def alter_client_quotas(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    slices = broker.slow_lane.slices()
    rows: list[ResponseEntryData] = []
    refused, asked = None, None
    if may_on_cluster(broker, context.session, Operation.ALTER_CONFIGS):
        asked = await slices.run(_asked(request.entries))
    else:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refused = Outcome(code, code.message)
    if asked is None:
        async for entry in slices.each(request.entries):
            rows.append(_answer_row(entry.entity[:_PARTS_MAX], refused or TOO_LARGE))
        return AlterClientQuotasResponse(entries=rows)
    results = await broker.controller.alter_quotas(asked, validate_only=request.validate_only)
    async for one, outcome in slices.each(results):
        entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in one.entity]
        rows.append(_answer_row(entity, outcome))
    return AlterClientQuotasResponse(entries=rows)


def _asked(entries: Sequence[EntryData]) -> Generator[None, None, "list[AlterQuotas] | None"]:
    """What is asked for; None if it is more than one request may change."""
    from moldau.broker.controller.quotas import AlterQuotas

    asked = []
    count = 0
    for entry in entries:
        yield
        count += max(1, len(entry.ops))
        if count > RECORDS_MAX:
            return None
        asked.append(
            AlterQuotas(
                tuple([(part.entity_type, part.entity_name) for part in entry.entity[:_PARTS_MAX]]),
                tuple([(op.key, None if op.remove else op.value) for op in entry.ops]),
            )
        )
    return asked


def _answer_row(entity: Sequence[EntityData], outcome: Outcome) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=outcome.error_code, error_message=outcome.message, entity=list(entity)
    )
