"""A link with TLS and a login: its own settings are used, and its secrets are never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from mirror_world import Pair

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
        with pytest.raises(KafkaProblem, match="the source cannot be asked.*the login"):
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
