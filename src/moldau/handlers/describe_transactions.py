"""DescribeTransactions, version 0: the state of transactions, and the partitions in them (KIP-664)."""

from moldau.core.waiting import Answer
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


@handles(DescribeTransactionsRequest)
def describe_transactions(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> Answer[DescribeTransactionsResponse]:
    return broker.transactions.describe(request)
