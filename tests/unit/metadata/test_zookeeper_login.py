"""The login at ZooKeeper by SASL (DIGEST-MD5): with a server that lets in nobody else, and one that knows no
users."""

import asyncio
import random
import time
from types import SimpleNamespace

import pytest
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.states import KazooState

from moldau.broker.metadata.changes import ClusterCreated
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.login import log_in_by
from moldau.broker.metadata.zookeeper.options import Options, SaslLogin
from moldau.broker.metadata.zookeeper.session import Session
from moldau.broker.metadata.zookeeper.store import ZooKeeperStore
from moldau.ensemble import ZooKeeperServer, free_ports

pytestmark = pytest.mark.xdist_group("zookeeper")

REFUSED_MS = 8_000
"""For the first refusal on a busy machine; it is waited for until then."""
USER = SaslLogin('brok"er', 'sec\\ret="ü, x')
USERS = """
Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  "user_brok\\"er"="sec\\\\ret=\\"ü, x";
};
"""


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory):
    """A server at which every client has to log in."""
    folder = tmp_path_factory.mktemp("zookeeper")
    (folder / "jaas.conf").write_text(USERS)
    options = (
        f"-Djava.security.auth.login.config={folder / 'jaas.conf'}",
        "-Dfile.encoding=UTF-8",
        "-Dzookeeper.enforce.auth.enabled=true",
        "-Dzookeeper.enforce.auth.schemes=sasl",
        "-Dzookeeper.authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    )
    with ZooKeeperServer(folder / "server", free_ports(1)[0], syncs=False, java_options=options) as server:
        yield server


def test_only_who_logs_in_is_served(strict_server, zookeeper_world):
    hosts = strict_server.connect_string

    async def scenario():
        store = zookeeper_world.make(hosts=hosts, sasl=USER, private=True)
        await store.open()
        assert await store.append_if(0, [ClusterCreated("c")]) == 1
        await store.close()
        for sasl, said in (
            (SaslLogin(USER.username, "planted"), "refuses the login of brok"),
            (SaslLogin("nobody", "planted"), "refuses the login of nobody by SASL"),
            (None, "only clients that log in by SASL: set moldau.zookeeper.sasl.jaas.config"),
        ):
            refused = zookeeper_world.make(hosts=hosts, sasl=sasl, connection_timeout_ms=REFUSED_MS)
            with pytest.raises(MetadataStoreError) as caught:
                await asyncio.wait_for(refused.open(), 90)
            assert said in str(caught.value)
            assert "planted" not in str(caught.value)

    asyncio.run(scenario())


def test_a_server_without_users(zookeeper_world):
    async def scenario():
        refused = zookeeper_world.make(
            hosts=zookeeper_world.server.connect_string, sasl=USER, connection_timeout_ms=REFUSED_MS
        )
        with pytest.raises(MetadataStoreError, match="refuses the login"):
            await asyncio.wait_for(refused.open(), 90)

    asyncio.run(scenario())


def test_the_time_away_goes_on_while_logins_are_refused():
    """Each of those connections is made, and lost again. Who waits is told after some time away."""
    now = [5.0]
    session = Session(
        Options("127.0.0.1:1", sasl=USER), None, None, lambda: now[0], connected=lambda: None, over=print
    )
    session._state_changed(KazooState.CONNECTED, (7, b""))
    assert session.up
    for now[0] in (30.0, 31.0, 32.0):
        session._state_changed(KazooState.SUSPENDED, None)
        assert not session.up
        assert session.since_seconds == 30.0
    now[0] = 40.0
    session._state_changed(KazooState.CONNECTED, (7, b""))
    assert session.up
    assert session.since_seconds == 40.0


def test_an_append_at_a_server_that_asks_for_logins_by_now_is_an_error_of_the_store():
    """As other refusals: the administrator is told the cause."""

    class Refusing:
        async def reach(self):
            """It is there."""

        async def transaction(self, fill):
            raise MetadataStoreError("ZooKeeper serves only clients that log in by SASL")

    store = ZooKeeperStore(
        Options("a:1"),
        clock=None,
        timers=None,
        source=random.SystemRandom(),
        seconds=time.perf_counter,
        offload=None,
        folder=None,
    )
    store.sessions.present = Refusing()
    with pytest.raises(OSError, match="refused a metadata entry: ZooKeeper serves only clients that log in"):
        asyncio.run(store.append_if(0, [ClusterCreated("c")]))


@pytest.mark.parametrize(
    ("code", "said"), [(-115, "the user or the password is wrong"), (-999, "its answer is error -999")]
)
def test_a_login_that_is_refused_is_a_connection_that_is_lost(code, said):
    """Any other exception would end kazoo's thread, and with it the session."""
    connection = SimpleNamespace(
        _submit=lambda *request: None, _read_header=lambda seconds: (SimpleNamespace(err=code), b"", 0)
    )
    heard = []
    log_in_by(USER, connection, accepted=lambda: heard.append("accepted"), refused=heard.append)
    with pytest.raises(ConnectionDropped):
        connection._authenticate_with_sasl("zk", 1.0)
    (why,) = heard
    assert why.startswith("ZooKeeper at zk refuses the login of brok")
    assert said in why
