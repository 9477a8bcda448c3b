"""ACLs: found by a filter, created, and deleted by a filter."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.acls import AclRow, create_request, delete_request, deleted, describe_request, described
from moldau.client.cluster import Cluster
from moldau.services.rest.kafka.admin.asking import ask_any, ask_controller
from moldau.services.rest.kafka.problem import check


def find_acls(cluster: Cluster, wanted: AclRow) -> list[AclRow]:
    """The ACLs that match, in order."""
    answer = ask_any(cluster, "read ACLs", describe_request(wanted))
    check(answer.error_code, answer.error_message)
    return sorted(described(answer))


def create_acls(cluster: Cluster, acls: Sequence[AclRow]) -> None:
    """Create them; KafkaProblem if one of them failed."""
    answer = ask_controller(
        cluster,
        "create ACLs",
        create_request(acls),
        lambda got: next((each.error_code for each in got.results if each.error_code), 0),
    )
    for result in answer.results:
        check(result.error_code, result.error_message)


def delete_acls(cluster: Cluster, wanted: AclRow) -> list[AclRow]:
    """Delete what matches, and return it in order."""
    answer = ask_controller(
        cluster,
        "delete ACLs",
        delete_request([wanted]),
        lambda got: got.filter_results[0].error_code if got.filter_results else 0,
    )
    gone = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            check(each.error_code, each.error_message)
            gone.append(deleted(each))
    return sorted(gone)
