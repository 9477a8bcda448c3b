"""DescribeUserScramCredentials, version 0: which SCRAM credentials users have, without the keys. The client
must have Describe on the cluster.
"""

from collections import Counter
from collections.abc import Generator

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.image import ScramUsers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from moldau.common.protocol.operations import Operation


@handles(DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # As in Kafka, a row for each that was asked for; decoders count them. None is named.
        row = DescribeUserScramCredentialsResult(user="", error_code=code, error_message=code.message)
        rows = [row] * len(request.users or ())
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.message, results=rows)
    users = broker.metadata.image.scram
    counts: Counter[str] = Counter()
    for each in request.users or ():
        counts[each.name] += 1
        yield
    rows = []
    for name in counts or users:
        rows.append(_row(users, name, counts[name]))
        yield
    return DescribeUserScramCredentialsResponse(error_message=None, results=rows)


def _row(users: ScramUsers, name: str, count: int) -> DescribeUserScramCredentialsResult:
    from moldau.common.credentials.scram import BY_NAME

    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=(
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            ),
        )
    own = users.get(name)
    if own is None:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    infos = [
        CredentialInfo(mechanism=BY_NAME[mechanism].number, iterations=each.iterations)
        for mechanism, each in sorted(own.items())
    ]
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)
