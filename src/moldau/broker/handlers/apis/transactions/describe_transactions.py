"""DescribeTransactions, version 0: the state of transactions, and the partitions in them (KIP-664).

The client must have Describe on each transactional id. Topics that it may not describe are left out.
"""

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import apart, one_step, serve_permitted
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from moldau.common.protocol.operations import Operation, ResourceType


@handles(DescribeTransactionsRequest)
def describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> Answer[DescribeTransactionsResponse]:
    return serve_permitted(
        broker,
        context,
        request,
        Operation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        str,
        one_step(_refused),
        lambda: _describe(broker, context, request),
        DescribeTransactionsResponse,
        many=len(request.transactional_ids) > ROWS_AT_ONCE,
        field="transactional_ids",
        rows="transaction_states",
    )


def _refused(transactional_id: str) -> TransactionState:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return TransactionState(transactional_id=transactional_id, error_code=code)


def _describe(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> Answer[DescribeTransactionsResponse]:
    described = broker.transactions.describe(request)
    return described if broker.authorizer is None else _without_hidden(broker, context, described)


async def _without_hidden(
    broker: Broker, context: RequestContext, described: Answer[DescribeTransactionsResponse]
) -> DescribeTransactionsResponse:
    response = await settled(described)
    slices = broker.slow_lane.slices()
    describe, kind = Operation.DESCRIBE, ResourceType.TOPIC
    for state in response.transaction_states:
        steps = apart(
            broker, context.session, describe, kind, state.topics, lambda each: each.topic, quiet=True
        )
        state.topics, _ = await slices.run(steps)
    return response
