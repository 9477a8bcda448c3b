"""ListTransactions, versions 0-2: the transactions whose coordinator is here (KIP-664).

v1  only those older than a duration (KIP-994)    v2  a pattern of transactional ids (KIP-1152)

Transactional ids that the client may not describe are left out.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import granted
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(ListTransactionsRequest)
def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> Answer[ListTransactionsResponse]:
    listed = broker.transactions.list(request)
    return listed if broker.authorizer is None else _granted(broker, context, listed)


async def _granted(
    broker: Broker, context: RequestContext, listed: Answer[ListTransactionsResponse]
) -> ListTransactionsResponse:
    response = await settled(listed)
    response.transaction_states = await settled(
        granted(
            broker,
            context.session,
            Operation.DESCRIBE,
            ResourceType.TRANSACTIONAL_ID,
            response.transaction_states,
            lambda state: state.transactional_id,
        )
    )
    return response
