"""A Kafka home's servers as an introduction types them: ZooKeeper, a broker with it, a look into it, the
end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import KIND

from moldau.ensemble.installation import EnsembleError, installation
from moldau.testing.ports import reserve_port

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(KIND != "moldau", reason="starts Moldau"),
]
Run = Callable[..., subprocess.CompletedProcess[str]]


def tool(*words: str, folder: Path, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a tool as a script of bin/ does."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "moldau.tools.kafka", *words],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture
def home(tmp_path: Path) -> Iterator[tuple[Path, dict[str, int]]]:
    """A home whose servers have ports and a broker number of their own; what still runs is ended."""
    from moldau.tools.kafka.homes.config_files import config_files

    ports = {"zookeeper": reserve_port(), "broker": reserve_port()}
    number = 1_000_000 + os.getpid()
    for name, text in config_files(tmp_path).items():
        file = tmp_path / "config" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("2181", str(ports["zookeeper"].number)).replace(
            "9092", str(ports["broker"].number)
        )
        text = text.replace("broker.id=0", f"broker.id={number}").replace("node.id=1", f"node.id={number}")
        file.write_text(text + ("moldau.http.listener=\n" if "server" in name else ""))
    yield tmp_path, {name: port.number for name, port in ports.items()} | {"node": number}
    from moldau.tools.kafka.homes.processes import own_processes

    for each in own_processes():
        if any(str(tmp_path) in word for word in each.words) or f"{number}" in each.words:
            os.kill(each.pid, signal.SIGKILL)


def test_a_broker_alone_takes_the_cluster_id_that_its_folder_was_formatted_with(
    home: tuple[Path, dict[str, int]],
) -> None:
    folder, ports = home
    cluster_id = tool("kafka-storage.sh", "random-uuid", folder=folder).stdout.strip()
    config = str(folder / "config" / "kraft" / "server.properties")
    tool("kafka-storage.sh", "format", "-t", cluster_id, "-c", config, "--standalone", folder=folder)
    tool("kafka-server-start.sh", "-daemon", config, "--override", "no.such.setting=1", folder=folder)
    log = (folder / "logs" / "kafkaServer.out").read_text()
    assert "no.such.setting" in log
    server = ["--bootstrap-server", f"127.0.0.1:{ports['broker']}"]
    said = tool("kafka-cluster.sh", "cluster-id", *server, folder=folder).stdout
    assert said == f"Cluster ID: {cluster_id}\n"
    again = tool("kafka-server-start.sh", "-daemon", config, folder=folder, code=1)
    assert "ended with exit code 1" in again.stderr
    shown = tool("kafka-storage.sh", "info", "-c", config, folder=folder).stdout
    assert f"cluster.id={cluster_id}" in shown
    tool("kafka-server-stop.sh", "--node-id", str(ports["node"]), folder=folder)
    nothing = tool("kafka-server-stop.sh", "--node-id", str(ports["node"]), folder=folder, code=1)
    assert nothing.stdout == "No kafka server to stop\n"


def test_zookeeper_first_then_a_broker_then_a_look_into_zookeeper(home: tuple[Path, dict[str, int]]) -> None:
    pytest.importorskip("kazoo")
    try:
        installation()
    except EnsembleError as problem:
        pytest.skip(str(problem))
    folder, ports = home
    zookeeper, broker = (str(folder / "config" / f"{name}.properties") for name in ("zookeeper", "server"))
    where = f"localhost:{ports['zookeeper']}"
    quick = ["--override", "zookeeper.connection.timeout.ms=200"]
    said = tool("kafka-server-start.sh", broker, *quick, folder=folder, code=1).stderr
    assert f"No ZooKeeper answers at {where}" in said
    tool("zookeeper-server-start.sh", "-daemon", zookeeper, folder=folder)
    tool("kafka-server-start.sh", "-daemon", broker, folder=folder)
    shell = ["zookeeper-shell.sh", where]
    listed = tool(*shell, "ls", "/brokers/ids", folder=folder).stdout
    assert listed.splitlines()[-1] == f"[{ports['node']}]"
    got = tool(*shell, "get", f"/brokers/ids/{ports['node']}", folder=folder).stdout
    assert json.loads(got.splitlines()[-1])["endpoints"]
    assert "Node does not exist: /no" in tool(*shell, "get", "/no", folder=folder, code=1).stderr
    lines = (
        "create /a b\nls -R /a\nset /a c\nget -s /a\ncreate /a/b\ndelete /a\ndeleteall "
        "/a\nget /a\nquit\nls /\n"
    )
    many = tool(*shell, folder=folder, stdin=lines)
    assert "Created /a\n/a\nc\ncZxid = 0x" in many.stdout
    assert many.stderr == "Node not empty: /a\nNode does not exist: /a\n"
    tool("kafka-server-stop.sh", "--node-id", str(ports["node"]), folder=folder)
    tool("zookeeper-server-stop.sh", "--config", zookeeper, folder=folder)
    assert "no ZooKeeper answers" in tool(*shell, "ls", "/", folder=folder, code=1).stderr
