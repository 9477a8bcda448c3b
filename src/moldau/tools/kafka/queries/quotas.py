"""Quotas of users, clients and addresses, for kafka-configs.

A user and a client together are one entity, other than the user alone. Not here: SCRAM users
(scram_users.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.client.admin import quotas
from moldau.client.admin.quotas import ANY_NAME, AnyName
from moldau.common.access.quota_entities import CLIENT_KEYS, CONNECTION
from moldau.tools.kafka.problems import ToolError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.tools.kafka.programs.configs import Entity

TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
SHOWN = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


def describe_quotas(cluster: Cluster, entity: Entity) -> None:
    """Print a line for each entity with quotas."""
    wanted: dict[str, str | AnyName | None] = {
        kind: ANY_NAME if name is None else name or None for kind, name in _parts(entity).items()
    }
    for parts, values in quotas.find_quotas(cluster, wanted, strict=True).items():
        named = ", ".join(
            f"the default {SHOWN[kind]}" if name is None else f"{SHOWN[kind]} '{name}'"
            for kind, name in parts
        )
        print(
            f"Quota configs for {named} are {', '.join(f'{k}={java_double(v)}' for k, v in values.items())}"
        )


def alter_quotas(cluster: Cluster, entity: Entity, settings: Mapping[str, str | None]) -> None:
    """Set quotas, or (None) remove them."""
    _check_names(entity, settings)
    parts = {kind: name or None for kind, name in _parts(entity).items()}
    present: Mapping[str, float] = {}
    for each in quotas.find_quotas(cluster, parts, strict=True).values():
        present = each
    gone = [key for key, value in settings.items() if value is None and key not in present]
    if gone:
        raise ToolError(f"Invalid config(s): {','.join(gone)}")
    values = {key: None if text is None else _number(key, text) for key, text in settings.items()}
    quotas.alter_quotas(cluster, parts, values)
    kind = entity.kind[:-1]
    print(
        f"Completed updating config for {kind} {entity.name}."
        if entity.name
        else f"Completed updating default config for {entity.kind} in the cluster."
    )


def _parts(entity: Entity) -> dict[str, str | None]:
    """The entity's names by the protocol's types; "" for a default, None for any."""
    parts = {TYPES[entity.kind]: entity.name}
    if entity.beside is not None:
        parts[TYPES[entity.beside[0]]] = entity.beside[1]
    return parts


def _check_names(entity: Entity, settings: Mapping[str, str | None]) -> None:
    """ToolError, in Kafka's words, for what is no quota of such an entity."""
    keys = (CONNECTION,) if entity.kind == "ips" else CLIENT_KEYS
    unknown = [key for key in settings if key not in keys]
    if not unknown:
        return
    if entity.kind == "ips":
        what, act, names = "connection quota configs", "added", ",".join(unknown)
    else:
        users = entity.kind == "users" and entity.beside is None
        what = "quota and SCRAM credential configs" if users else "quota configs"
        act = "deleted" if all(settings[key] is None for key in unknown) else "added"
        names = f"Set({', '.join(unknown)})"
    kind = "users" if what.startswith("quota and") else "ips" if entity.kind == "ips" else "clients"
    raise ToolError(
        f"Only {what} can be {act} for '{kind}' using --bootstrap-server. Unexpected config names: {names}"
    )


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"Cannot parse quota configuration value for {key}: {text}") from None


def java_double(value: float) -> str:
    """A number as Java prints it: 1000.0, but 1.0E7."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    digits, _, exponent = f"{value!r}".partition("e") if "e" in repr(value) else ("", "", "")
    if not digits:
        shift = len(str(int(abs(value)))) - 1
        digits, exponent = repr(value / 10**shift), str(shift)
    if "." not in digits:
        digits += ".0"
    return f"{digits}E{int(exponent)}"
