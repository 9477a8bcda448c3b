"""ListTransactions, versions 0-2: the transactions whose coordinator is here (KIP-664).

v1  only those older than a duration (KIP-994)    v2  a pattern of transactional ids (KIP-1152)
"""

from moldau.core.waiting import Answer
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@handles(ListTransactionsRequest)
def list_transactions(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> Answer[ListTransactionsResponse]:
    return broker.transactions.list(request)
