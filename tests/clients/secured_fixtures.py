"""The secured broker of the tests test_secured_*: one for a test session, of the kind under test.

    MOLDAU_TEST_BROKER=kafka pytest tests/clients/test_secured_clients.py     the same tests with Apache Kafka

Its users are those of `moldau.testing.Security`. alice may do everything with topics alice-* and read groups
alice-* and those that the clients make up; bob may do nothing; admin is a super user.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_agents import Agent, java_command, java_missing, kafkajs_command, kafkajs_missing
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from secured_clients import Clients

from bench.brokers import KINDS
from bench.secured import SecuredProcess, secured
from moldau.testing.security import Login, Security

KIND = os.environ.get("MOLDAU_TEST_BROKER", "moldau")
ADMIN_TIMEOUT_S = 60.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "connection.failed.authentication.delay.ms": "100",
    "delegation.token.secret.key": "0b6ebf46a2d4ff8c",
}


class SecuredBroker:
    """A running broker, and what tests do to it as its administrator."""

    def __init__(self, process: SecuredProcess) -> None:
        self.process = process
        self.security = process.security
        self.admin = AdminClient(process.admin_settings())
        self._numbers = itertools.count(1)

    def address(self, listener: str) -> str:
        return self.process.at(listener)

    def port(self, listener: str) -> int:
        return self.process.ports[listener]

    def login(self, listener: str, user: str = "", mechanism: str = "PLAIN", *, password: str = "") -> Login:
        return self.security.login(listener, user, mechanism, password=password)

    def create_topic(self, prefix: str) -> str:
        """A new topic whose name begins so."""
        name = f"{prefix}-{next(self._numbers)}-{os.urandom(3).hex()}"
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(ADMIN_TIMEOUT_S)
        return name

    def allow(
        self,
        user: str,
        resource: ResourceType,
        name: str,
        *operations: AclOperation,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
        host: str = "*",
        permission: AclPermissionType = AclPermissionType.ALLOW,
    ) -> list[AclBinding]:
        """Add an ACL for each operation."""
        bindings = [
            AclBinding(resource, name, pattern, f"User:{user}", host, operation, permission)
            for operation in operations
        ]
        for done in self.admin.create_acls(bindings).values():
            done.result(ADMIN_TIMEOUT_S)
        return bindings

    def forget(self, binding: AclBinding) -> None:
        """Remove an ACL."""
        exactly = AclBindingFilter(
            binding.restype,
            binding.name,
            binding.resource_pattern_type,
            binding.principal,
            binding.host,
            binding.operation,
            binding.permission_type,
        )
        (done,) = self.admin.delete_acls([exactly]).values()
        assert len(done.result(ADMIN_TIMEOUT_S)) == 1


def start_secured(folder: Path, security: Security, settings: dict[str, str] | None = None) -> SecuredProcess:
    """A secured broker of the kind under test."""
    process = secured(KINDS[KIND](folder, {**SETTINGS, **(settings or {})}), security)
    process.start()
    return process


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The session's secured broker, with alice's ACLs."""
    folder = tmp_path_factory.mktemp("secured")
    security = Security(folder / "certificates")
    process = start_secured(folder / "broker", security)
    try:
        security.add_scram_users(process.admin_settings())
        broker = SecuredBroker(process)
        everything, prefixed = AclOperation.ALL, ResourcePatternType.PREFIXED
        broker.allow("alice", ResourceType.TOPIC, "alice-", everything, pattern=prefixed)
        for group in ("alice-", "group-", "kafkajs-"):
            broker.allow("alice", ResourceType.GROUP, group, everything, pattern=prefixed)
        yield broker
        del broker.admin  # a client of a broker that is gone tries it for ever
    finally:
        process.kill()


@pytest.fixture(scope="session")
def secured_clients(
    secured_broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clients]:
    """All client libraries; a test with one that cannot run here is skipped with the reason."""
    logs = tmp_path_factory.mktemp("secured-agents")
    anywhere = secured_broker.address("PLAINTEXT")

    def java() -> Agent:
        if reason := java_missing():
            pytest.skip(reason)
        return Agent(java_command(anywhere), logs / "java.log")

    def kafkajs() -> Agent:
        if reason := kafkajs_missing():
            pytest.skip(reason)
        return Agent(kafkajs_command(anywhere), logs / "kafkajs.log")

    clients = Clients(java, kafkajs)
    yield clients
    clients.close()
