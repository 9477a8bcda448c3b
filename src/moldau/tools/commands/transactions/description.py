"""One transactional id as its coordinator describes it, and ended; errors say what to type next."""

from __future__ import annotations

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.transactions import Description, describe_transactions, fence
from moldau.client.cluster import Cluster
from moldau.client.errors import ClusterTimeout, error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.shared.errors import CommandError


def require_description(cluster: Cluster, transactional_id: str) -> Description:
    """Describe one id. CommandError if it does not exist."""
    described, refused = describe_transactions(cluster, [transactional_id])
    if refused:
        raise CommandError(refusal(transactional_id, refused[transactional_id]))
    return described[0]


def refusal(transactional_id: str, error_code: int) -> str:
    """Return the message for an id that cannot be described."""
    if error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return (
            f"there is no transactional id {transactional_id!r} (TRANSACTIONAL_ID_NOT_FOUND): "
            "list them with `moldau transactions list`"
        )
    return f"transactional id {transactional_id!r}: {error_words(error_code)}"


def end_by_fencing(cluster: Cluster, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Abort what is open, and fence the producer; the new producer id and epoch. CommandError."""
    try:
        return fence(cluster, transactional_id, timeout_ms)
    except ClusterTimeout as late:
        if late.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            raise
        raise CommandError(
            f"transactional id {transactional_id!r} is being aborted, but not yet in every partition "
            f"(CONCURRENT_TRANSACTIONS): `moldau transactions describe {transactional_id}` names those left"
        ) from None
    except KafkaProblem as problem:
        raise CommandError(f"transactional id {transactional_id!r}: {problem.words}") from None
