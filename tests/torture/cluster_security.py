"""A cluster in which everybody logs in: clients by SCRAM and brokers by PLAIN, both over TLS, with ACLs.

    PLAINTEXT   the harness, which looks and judges: User:ANONYMOUS, a super user here
    SASL_SSL    clients as alice, who has the rights that they need and no more; brokers as broker

Logins end after seconds and are renewed on the connections that there are (KIP-368), in the midst of faults.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from moldau.testing import Cluster, Security
from moldau.testing.ports import reserve_port
from moldau.testing.security import PLAIN, SCRAM_256

LISTENER, USER = "SASL_SSL", "alice"
TIMEOUT_S = 60.0
LOGIN_ENDS_MS = "15000"


class ClusterSecurity:
    """Certificates, passwords and addresses of one cluster; made before it starts."""

    def __init__(self, cluster: Cluster, folder: Path, stack: ExitStack) -> None:
        self._cluster = cluster
        self._security = Security(folder)
        addresses = []
        for node in cluster.node_ids:
            plain, secured = reserve_port(), reserve_port()
            for port in (plain, secured):
                stack.callback(port.release)
            addresses.append(f"127.0.0.1:{secured.number}")
            ports = {"PLAINTEXT": plain.number, LISTENER: secured.number}
            cluster.configure(node, {**self._security.settings(ports), **_SETTINGS})
        self.address = ",".join(addresses)

    def client_settings(self) -> dict[str, Any]:
        """librdkafka's settings of a client."""
        return self._security.login(LISTENER, USER, SCRAM_256).librdkafka()

    def grant(self) -> None:
        """Once the cluster runs: the user's credentials and rights."""
        admin = {"bootstrap.servers": self._cluster.bootstrap_servers}
        self._security.add_scram_users(admin, [USER])
        bindings = [
            AclBinding(
                kind,
                "*",
                ResourcePatternType.LITERAL,
                f"User:{USER}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, operations in _RIGHTS.items()
            for operation in operations
        ]
        client = AdminClient(admin)
        for done in client.create_acls(bindings).values():
            done.result(TIMEOUT_S)


_SETTINGS = {
    "inter.broker.listener.name": LISTENER,
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "super.users": "User:ANONYMOUS;User:broker",
    "connections.max.reauth.ms": LOGIN_ENDS_MS,
}
_RIGHTS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE),
    ResourceType.GROUP: (AclOperation.READ,),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
}
