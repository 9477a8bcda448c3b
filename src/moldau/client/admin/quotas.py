"""Quotas of users, client ids and addresses (KIP-546). A user and a client id together are one entity."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller
from moldau.client.cluster import Cluster
from moldau.common.access.quota_entities import QuotaEntity, ordered
from moldau.common.protocol.messages import alter_client_quotas as alter
from moldau.common.protocol.messages import describe_client_quotas as describe

_EXACT, _DEFAULT, _ANY = 0, 1, 2


class AnyName:
    """Stands for any name in a filter, the default included."""


ANY_NAME = AnyName()


def find_quotas(
    cluster: Cluster, wanted: Mapping[str, str | AnyName | None], *, strict: bool
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of the entities that match: by type a name, None for the default, or any. `strict`: of
    entities without a further part.
    """
    components = [
        describe.ComponentData(entity_type=kind, match_type=_ANY, match=None)
        if isinstance(name, AnyName)
        else describe.ComponentData(
            entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
        )
        for kind, name in wanted.items()
    ]
    request = describe.DescribeClientQuotasRequest(components=components, strict=strict)
    answer = ask_any(cluster, request, "read quotas")
    check(answer.error_code, answer.error_message)
    return {
        ordered({part.entity_type: part.entity_name for part in entry.entity}): {
            one.key: one.value for one in entry.values
        }
        for entry in answer.entries or ()
    }


def alter_quotas(
    cluster: Cluster, parts: Mapping[str, str | None], values: Mapping[str, float | None]
) -> None:
    """Set the quotas of an entity, or (None) remove them."""
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[
            alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )
    answer = ask_controller(
        cluster,
        alter.AlterClientQuotasRequest(entries=[entry]),
        lambda got: [row.error_code for row in got.entries],
        "change quotas",
    )
    for row in answer.entries:
        check(row.error_code, row.error_message)
