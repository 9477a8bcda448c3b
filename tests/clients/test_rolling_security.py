"""A running cluster goes from PLAINTEXT to SASL_SSL, broker by broker, and no request is lost.

The steps are those of docs/security-rolling-change.md. Producers write all the time, one the old way until
it is asked to change, one the new way from the first moment on; at the end every acknowledged record is
there once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import KIND

from moldau.testing import Cluster
from moldau.testing.ports import ReservedPort, reserve_port
from moldau.testing.security import BROKER_USER, SCRAM_512, Security, jaas_entry

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(KIND != "moldau", reason="starts a cluster of Moldau"),
]
TOPIC, PARTITIONS = "orders", 3
PAUSE_SECONDS = 0.02
DELIVERY_MS = 240_000


class Writer:
    """Writes numbered records until it is stopped; `failed` is what was not acknowledged, and why."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        from confluent_kafka import Producer

        self.name = name
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": DELIVERY_MS,
                "log_level": 3,
            }
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            value = f"{self.name}-{number}"
            self._producer.produce(TOPIC, value, on_delivery=self._answered(value))
            self._producer.poll(0)
            number += 1
        self._producer.flush(DELIVERY_MS / 1000)

    def _answered(self, value: str) -> Any:
        def answered(error: Any, record: Any) -> None:
            if error is None:
                self.acknowledged.append(value)
            else:
                self.failed.append(f"{value}: {error.str()}")

        return answered

    def stop(self) -> None:
        """Write no more, and wait until all is acknowledged."""
        self._stop.set()
        self._thread.join(2 * DELIVERY_MS / 1000)
        assert not self._thread.is_alive()
        assert not self.failed
        assert self.acknowledged


class Rolling:
    """The cluster, and the settings of each step."""

    def __init__(self, folder: Path) -> None:
        self.security = Security(folder / "keys")
        self.ports: dict[int, tuple[ReservedPort, ReservedPort]] = {
            node_id: (reserve_port(), reserve_port()) for node_id in (1, 2, 3)
        }
        self.cluster = Cluster(3, each={node_id: self._plain(node_id) for node_id in self.ports})

    def _plain(self, node_id: int) -> dict[str, str]:
        return {"listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node_id][0].number}"}

    def _secured(self, node_id: int) -> str:
        return f"SASL_SSL://127.0.0.1:{self.ports[node_id][1].number}"

    def login(self) -> dict[str, str]:
        """A client's settings of the new way."""
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{new.number}" for _, new in self.ports.values()),
            **self.security.login("SASL_SSL", "alice", SCRAM_512).librdkafka(),
        }

    def roll(self, changes: Mapping[int, Mapping[str, str]]) -> None:
        """Give each broker its settings and start it again; the next one follows when all is in sync."""
        for node_id, settings in changes.items():
            self.cluster.configure(node_id, settings)
            self.cluster.restart(node_id)
            self.cluster.wait_until_in_sync()

    def both_ways(self) -> None:
        """Step 1: a listener with TLS and logins beside the old one."""
        jaas = {"username": BROKER_USER, "password": self.security.users[BROKER_USER]}
        shared = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.security.pair(BROKER_USER).store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.security.authority.certificate),
            "sasl.enabled.mechanisms": SCRAM_512,
            "sasl.mechanism.inter.broker.protocol": SCRAM_512,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": jaas_entry(SCRAM_512, jaas),
        }
        self.roll(
            {
                node_id: shared
                | {"listeners": f"{self._plain(node_id)['listeners']},{self._secured(node_id)}"}
                for node_id in self.ports
            }
        )

    def brokers_log_in(self) -> None:
        """Step 3: brokers connect to each other by the new listener."""
        self.roll({node_id: {"security.inter.broker.protocol": "SASL_SSL"} for node_id in self.ports})

    def only_secured(self) -> None:
        """Step 4: the old listener goes. The helper that looks whether all is in sync changes over as
        well."""
        self.cluster.use_client_settings(self.login())
        self.roll({node_id: {"listeners": self._secured(node_id)} for node_id in self.ports})


@pytest.fixture(scope="module")
def rolling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rolling]:
    rolling = Rolling(tmp_path_factory.mktemp("rolling"))
    try:
        rolling.cluster.start()
        yield rolling
    finally:
        rolling.cluster.stop()
        for pair in rolling.ports.values():
            for port in pair:
                port.release()


def test_no_request_is_lost(rolling: Rolling) -> None:
    cluster = rolling.cluster
    cluster.create_topic(TOPIC, PARTITIONS)
    old = Writer("old", {"bootstrap.servers": cluster.bootstrap_servers})
    rolling.both_ways()
    plain = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3}
    rolling.security.add_scram_users(plain)
    new = Writer("new", rolling.login())
    rolling.brokers_log_in()
    old.stop()
    rolling.only_secured()
    new.stop()
    expected = Counter([*old.acknowledged, *new.acknowledged])
    assert _values(rolling.login()) == expected
    texts = [cluster.log(node_id).read_text() for node_id in cluster.node_ids]
    for what, secret in rolling.security.secrets().items():
        assert not any(secret in text for text in texts), what


def _values(settings: Mapping[str, Any]) -> Counter[str]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {**settings, "group.id": "check", "enable.partition.eof": True, "enable.auto.commit": False}
    )
    found: Counter[str] = Counter()
    left = set(range(PARTITIONS))
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in left])
    while left:
        record = consumer.poll(120)
        assert record is not None, f"no end is reached in {left}"
        error = record.error()
        if error is None:
            found[(record.value() or b"").decode()] += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(record.partition() or 0)
        else:
            raise AssertionError(error.str())
    consumer.close()
    return found
