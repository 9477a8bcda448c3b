"""Quotas of users, clients and addresses, for kafka-configs: DescribeClientQuotas and AlterClientQuotas.

Not here: SCRAM users (scram_users.py), and quotas of a user together with a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.cli.kafka.asking import Refused, ask, require
from moldau.cli.kafka.problems import ToolError
from moldau.protocol.messages import alter_client_quotas as alter
from moldau.protocol.messages import describe_client_quotas as describe

if TYPE_CHECKING:
    from moldau.cli.kafka.configs import Entity
    from moldau.client.cluster import Cluster

TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
SHOWN = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
EXACT, DEFAULT, ANY = 0, 1, 2


def describe_quotas(cluster: Cluster, entity: Entity) -> None:
    """Print a line for each entity with quotas."""
    match = ANY if entity.name is None else EXACT if entity.name else DEFAULT
    component = describe.ComponentData(
        entity_type=TYPES[entity.kind], match_type=match, match=entity.name or None
    )
    answer = ask(cluster, describe.DescribeClientQuotasRequest(components=[component]))
    require(answer.error_code, answer.error_message)
    for entry in answer.entries or []:
        named = ", ".join(
            f"the default {SHOWN.get(each.entity_type, each.entity_type)}"
            if each.entity_name is None
            else f"{SHOWN.get(each.entity_type, each.entity_type)} '{each.entity_name}'"
            for each in entry.entity
        )
        values = ", ".join(f"{each.key}={each.value}" for each in entry.values)
        print(f"Quota configs for {named} are {values}")


def alter_quotas(cluster: Cluster, entity: Entity, settings: Mapping[str, str | None]) -> None:
    """Set quotas, or (None) remove them."""
    operations = []
    for key, value in settings.items():
        try:
            number = 0.0 if value is None else float(value)
        except ValueError:
            raise ToolError(f"Cannot parse quota configuration value for {key}: {value}") from None
        operations.append(alter.OpData(key=key, value=number, remove=value is None))
    data = alter.EntityData(entity_type=TYPES[entity.kind], entity_name=entity.name or None)
    request = alter.AlterClientQuotasRequest(entries=[alter.EntryData(entity=[data], ops=operations)])
    for each in ask(cluster, request).entries:
        if each.error_code:
            raise Refused(each.error_code, each.error_message)
    kind = entity.kind[:-1]
    print(
        f"Completed updating config for {kind} {entity.name}."
        if entity.name
        else f"Completed updating default config for {entity.kind} in the cluster."
    )
