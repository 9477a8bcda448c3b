"""Key stores that are changed at run time: one that cannot be used is refused, and the old one stays."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from moldau.testing import Broker, Security
from moldau.testing.ports import reserve_port

NAME = "listener.name.inside.ssl.keystore.location"


def alter(admin: AdminClient, broker: str, value: str, *, validate_only: bool = False) -> None:
    entry = ConfigEntry(NAME, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
    (done,) = admin.incremental_alter_configs([resource], validate_only=validate_only).values()
    done.result(60)


@pytest.mark.client
@pytest.mark.parametrize("validate_only", [True, False])
def test_a_store_that_cannot_be_used_is_refused(tmp_path: Path, validate_only: bool) -> None:
    security = Security(tmp_path / "certificates")
    store, odd = tmp_path / "broker.pem", tmp_path / "odd.pem"
    store.write_bytes(security.pair("broker").store.read_bytes())
    odd.write_text("no PEM at all")
    clients, inside = reserve_port(), reserve_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{clients.number},INSIDE://127.0.0.1:{inside.number}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SSL",
        "listener.name.inside.ssl.keystore.type": "PEM",
        NAME: str(store),
    }
    with Broker(settings):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{clients.number}"})
        for wrong in (odd, tmp_path / "missing.pem"):
            with pytest.raises(KafkaException) as refused:
                alter(admin, "1", str(wrong), validate_only=validate_only)
            error = refused.value.args[0]
            assert error.code() == KafkaError.INVALID_CONFIG
            assert "the listener INSIDE cannot use these stores" in error.str()
        again = tmp_path / "again.pem"
        again.write_bytes(store.read_bytes())
        alter(admin, "1", str(again), validate_only=validate_only)
        context = ssl.create_default_context(cafile=str(security.authority.certificate))
        with socket.create_connection(("127.0.0.1", inside.number), timeout=60) as plain:
            assert context.wrap_socket(plain, server_hostname="localhost").version() is not None
    for port in (clients, inside):
        port.release()
