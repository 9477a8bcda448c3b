"""Connections to ZooKeeper over TLS, with certificates on both sides; a server of its own."""

import asyncio
import shutil
import subprocess

import pytest

from moldau.ensemble import ZooKeeperServer, free_ports
from moldau.metadata.changes import ClusterCreated
from moldau.metadata.store import MetadataStoreError
from moldau.metadata.zookeeper.options import Tls

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
    return tmp_path


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
    trusted, identity = str(certificates / "ca.pem"), str(certificates / "broker.pem")
    hosts = f"127.0.0.1:{port}"

    async def scenario():
        store = zookeeper_world.make(hosts=hosts, tls=Tls(identity, None, trusted))
        await store.open()
        assert await store.append_if(0, [ClusterCreated("c")]) == 1
        await store.close()
        for wrong in (Tls(identity, None, None), Tls(None, None, trusted)):
            refused = zookeeper_world.make(hosts=hosts, tls=wrong, connection_timeout_ms=1_000)
            with pytest.raises(MetadataStoreError, match="no ZooKeeper answered") as caught:
                await refused.open()
            assert wrong.trusted or "certificate verify failed" in str(caught.value)

    with server:
        asyncio.run(scenario())
