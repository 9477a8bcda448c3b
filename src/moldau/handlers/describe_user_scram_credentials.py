"""DescribeUserScramCredentials, version 0: which SCRAM credentials users have. None has any: this version
serves no SASL and stores none (alter_user_scram_credentials.py).
"""

from collections import Counter
from collections.abc import Generator

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    counts: Counter[str] = Counter()
    for user in request.users or ():
        counts[user.name] += 1
        yield
    rows = []
    for name, count in counts.items():
        rows.append(_row(name, count))
        yield
    return DescribeUserScramCredentialsResponse(results=rows)


def _row(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    else:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
