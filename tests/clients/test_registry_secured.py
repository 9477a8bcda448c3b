"""A registry as a user of a broker with TLS, logins and ACLs: the rights that the page names are enough."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from moldau.services.registry.election.identity import Identity
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import parse_registry_settings
from moldau.testing import Broker, Security
from moldau.testing.security import PLAIN

TOPIC, GROUP = "_schemas", "schema-registry"
WRITER = (
    (ResourceType.TOPIC, TOPIC, ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE")),
    (ResourceType.GROUP, GROUP, ("READ",)),
    (ResourceType.TRANSACTIONAL_ID, f"{GROUP}-{TOPIC}", ("DESCRIBE", "WRITE")),
)
READER = ((ResourceType.TOPIC, TOPIC, ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")),)
WAIT_SECONDS = 100.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Security]]:
    security = Security(tmp_path_factory.mktemp("security"))
    with Broker(security=security) as broker:
        yield broker, security


def grant(
    secured: tuple[Broker, Security], user: str, rights: tuple[tuple[ResourceType, str, tuple[str, ...]], ...]
) -> None:
    broker, security = secured
    login = security.login("SASL_SSL", "admin", PLAIN)
    admin = AdminClient({"bootstrap.servers": broker.address("SASL_SSL"), **login.librdkafka()})
    bindings = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[each],
            AclPermissionType.ALLOW,
        )
        for kind, name, operations in rights
        for each in operations
    ]
    for future in admin.create_acls(bindings).values():
        future.result(60)


def service(secured: tuple[Broker, Security], user: str, *, read_only: bool = False) -> RegistryService:
    broker, security = secured
    login = security.login("SASL_SSL", user, PLAIN).java()
    texts = {f"kafkastore.{name}": value for name, value in login.items()}
    texts |= {
        "kafkastore.bootstrap.servers": broker.address("SASL_SSL"),
        "kafkastore.init.timeout.ms": "20000",
    }
    parsed = parse_registry_settings(texts)
    return RegistryService(parsed.settings, parsed.client, Identity("127.0.0.1", 8101), read_only=read_only)


def test_the_rights_that_the_page_names_are_enough(secured: tuple[Broker, Security]) -> None:
    refused = service(secured, "alice")
    with pytest.raises(RegistryProblem) as caught:
        refused.instance.start()
    assert caught.value.error_code == Code.STORE
    refused.instance.close()
    grant(secured, "alice", WRITER)
    grant(secured, "bob", READER)
    writer = service(secured, "alice")
    reader = service(secured, "bob", read_only=True)
    try:
        writer.instance.start()
        answer = writer.register("a", {"schema": '"string"'})
        assert answer["id"] == 1
        reader.instance.start()
        deadline = time.monotonic() + WAIT_SECONDS
        while not reader.subjects():
            assert time.monotonic() < deadline
            reader.instance.catch_up()
        assert reader.version("a", "1")["schema"] == '"string"'
    finally:
        writer.instance.close()
        reader.instance.close()
