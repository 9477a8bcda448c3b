"""Brokers for tests: `moldau.testing.Broker`, started in a fraction of a second, `moldau.testing.Cluster`
with several of them, `moldau.testing.SchemaRegistry` beside a broker, `moldau.testing.Security` for listeners
with TLS, logins and an authorizer, and pytest fixtures in `plugin`.

All are imported on first use: pytest imports this package in every project that has Moldau installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.testing.broker import Broker as Broker
    from moldau.testing.cluster import Cluster as Cluster
    from moldau.testing.schema_registry import SchemaRegistry as SchemaRegistry
    from moldau.testing.security import Security as Security

__all__ = ["Broker", "Cluster", "SchemaRegistry", "Security"]


def __getattr__(name: str) -> object:
    if name == "Broker":
        from moldau.testing.broker import Broker

        return Broker
    if name == "Cluster":
        from moldau.testing.cluster import Cluster

        return Cluster
    if name == "SchemaRegistry":
        from moldau.testing.schema_registry import SchemaRegistry

        return SchemaRegistry
    if name == "Security":
        from moldau.testing.security import Security

        return Security
    raise AttributeError(name)
