"""Connections to ZooKeeper over TLS, with certificates on both sides in stores of each format; a server of
its own."""

import asyncio
import shutil
import socket
import subprocess

import pytest

from moldau.broker.metadata.changes import ClusterCreated
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.options import options_of
from moldau.broker.metadata.zookeeper.session import _secured
from moldau.common.settings.broker import BrokerSettings
from moldau.ensemble import ZooKeeperServer, free_ports

REFUSED_MS = 8_000
"""For the first refusal on a busy machine; it is waited for until then."""

pytestmark = [
    pytest.mark.xdist_group("zookeeper"),
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="openssl, which makes certificates, is missing"
    ),
]


@pytest.fixture
def certificates(tmp_path):
    """A CA; key and certificate of the server (for 127.0.0.1) and of a broker, each pair in one file."""

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ca")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "broker"):
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signed)
        pair = (tmp_path / f"{name}.key").read_bytes() + (tmp_path / f"{name}.crt").read_bytes()
        (tmp_path / f"{name}.pem").write_bytes(pair)
    export = ("pkcs12", "-export", "-passout", "pass:secret")
    openssl(*export, "-in", "broker.pem", "-out", "broker.p12")
    openssl(*export, "-nokeys", "-in", "ca.pem", "-out", "ca.p12")
    return tmp_path


def tls_of(hosts, **settings):
    """The TLS options that settings of these names (without `zookeeper_ssl_`) ask for."""
    named = {f"zookeeper_ssl_{name}": value for name, value in settings.items()}
    return options_of(BrokerSettings(zookeeper_connect=hosts, zookeeper_ssl_client_enable=True, **named)).tls


def test_both_sides_prove_who_they_are(certificates, tmp_path, zookeeper_world):
    (port,) = free_ports(1)
    server = ZooKeeperServer(
        tmp_path / "server",
        free_ports(1)[0],
        syncs=False,
        settings={
            "secureClientPort": str(port),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(certificates / "server.pem"),
            "ssl.trustStore.location": str(certificates / "ca.pem"),
            "ssl.clientAuth": "need",
        },
    )
    hosts = f"127.0.0.1:{port}"
    pem = {"truststore_location": str(certificates / "ca.pem")}
    identity = {"keystore_location": str(certificates / "broker.pem")}
    pkcs12 = {
        "keystore_location": str(certificates / "broker.p12"),
        "keystore_password": "secret",
        "truststore_location": str(certificates / "ca.p12"),
        "truststore_password": "secret",
    }

    async def scenario():
        for root, good in (("/of-pem", pem | identity), ("/of-pkcs12", pkcs12)):
            store = zookeeper_world.make(hosts=hosts, root=root, tls=tls_of(hosts, **good))
            await store.open()
            assert await store.append_if(0, [ClusterCreated("c")]) == 1
            await store.close()
        for wrong in (identity, pem):
            refused = zookeeper_world.make(
                hosts=hosts, tls=tls_of(hosts, **wrong), connection_timeout_ms=REFUSED_MS
            )
            with pytest.raises(MetadataStoreError, match="no ZooKeeper answered") as caught:
                await refused.open()
            assert wrong is pem or "certificate verify failed" in str(caught.value)

    with server:
        asyncio.run(scenario())


def test_stores_that_are_replaced_are_read_anew(certificates, tmp_path):
    """Each connection reads the stores; one that cannot be read any more is an error of the connection."""
    location = tmp_path / "ca.pem"
    tls = tls_of("a:1", truststore_location=str(location))
    location.write_text("nothing")
    here, there = socket.socketpair()
    with here, there, pytest.raises(OSError, match="there is no trusted certificate"):
        _secured(here, tls, "localhost")
