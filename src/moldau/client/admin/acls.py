"""ACLs: found by a filter, created, and deleted by a filter."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.acls import AclRow, create_request, delete_request, deleted, describe_request, described
from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller
from moldau.client.cluster import Cluster


def find_acls(cluster: Cluster, wanted: AclRow) -> list[AclRow]:
    """The ACLs that match, in order."""
    answer = ask_any(cluster, describe_request(wanted), "read ACLs")
    check(answer.error_code, answer.error_message)
    return sorted(described(answer))


def create_acls(cluster: Cluster, acls: Sequence[AclRow]) -> None:
    """Create them; KafkaProblem if one of them failed."""
    answer = ask_controller(
        cluster, create_request(acls), lambda got: [each.error_code for each in got.results], "create ACLs"
    )
    for result in answer.results:
        check(result.error_code, result.error_message)


def delete_acls(cluster: Cluster, wanted: AclRow) -> list[AclRow]:
    """Delete what matches, and return it in order."""
    answer = ask_controller(
        cluster,
        delete_request([wanted]),
        lambda got: [each.error_code for each in got.filter_results],
        "delete ACLs",
    )
    gone = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
            gone.append(deleted(each))
    return sorted(gone)
