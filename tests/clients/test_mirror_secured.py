"""A link with TLS and a login: its own settings are used, and its secrets are never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
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
from mirror_world import Pair, wait_for

from moldau.client.admin.problem import KafkaProblem
from moldau.testing import Broker, Security

pytestmark = pytest.mark.client


def test_a_link_logs_in_with_its_own_settings_and_shows_no_secret(tmp_path: Path) -> None:
    security = Security(tmp_path)
    with Broker(security=security) as source, Broker(data=tmp_path / "target") as target:
        admin = security.login("SASL_SSL", "admin")
        settings = {"bootstrap.servers": source.address("SASL_SSL"), **admin.librdkafka()}
        client = AdminClient(settings)
        client.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        producer = Producer(settings)
        producer.produce("orders", b"secured")
        assert producer.flush(30) == 0
        pair = Pair(source.address("SASL_SSL"), target)
        wrong = admin.java() | {
            "sasl.jaas.config": admin.java()["sasl.jaas.config"].replace('"admin"', '"nobody"')
        }
        with pytest.raises(KafkaProblem, match=r"the source cannot be asked.*the login"):
            pair.create("orders", **wrong)
        with pytest.raises(KafkaProblem, match="the source cannot be asked"):
            pair.create("orders")  # in plain text
        assert pair.create("orders", **admin.java()) == {"orders": ""}
        pair.wait_level("orders", 1)
        shown = pair.link().settings
        assert shown["sasl.jaas.config"] is None
        assert shown["security.protocol"] == "SASL_SSL"
        command = [sys.executable, "-m", "moldau", "mirror", "status", "--json"]
        said = subprocess.run(
            [*command, "-b", target.bootstrap_servers], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        secret = admin.password
        assert secret
        assert secret not in said


def test_rights_follow_and_never_to_write(tmp_path: Path) -> None:
    there, here = Security(tmp_path / "there"), Security(tmp_path / "here")
    with Broker(security=there) as source, Broker(security=here) as target:
        login, own = there.login("SASL_SSL", "admin"), here.login("SASL_SSL", "admin")
        client = AdminClient({"bootstrap.servers": source.address("SASL_SSL"), **login.librdkafka()})
        client.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        given = [
            AclBinding(
                ResourceType.TOPIC,
                "orders",
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for user, operation in (("alice", AclOperation.ALL), ("bob", AclOperation.WRITE))
        ]
        for future in client.create_acls(given).values():
            future.result(30)
        pair = Pair(source.address("SASL_SSL"), target, own.java(), target.address("SASL_SSL"))
        assert pair.create("orders", refresh_topics_interval_seconds="1", **login.java()) == {"orders": ""}
        admin = AdminClient({"bootstrap.servers": target.address("SASL_SSL"), **own.librdkafka()})
        every = AclBindingFilter(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        wait_for("they follow", lambda: admin.describe_acls(every).result(30))
        (found,) = admin.describe_acls(every).result(30)
        assert (found.principal, found.operation) == ("User:alice", AclOperation.READ)
