"""Which broker the real clients talk to, and the clients themselves.

By default every test session starts one Moldau as a process of its own. To see whether a test is right in the
first place, point it at the real thing:

    MOLDAU_TEST_BROKER=kafka pytest tests/clients              # Apache Kafka, fetched by Maven, started here
    MOLDAU_TEST_BOOTSTRAP=127.0.0.1:9092 pytest tests/clients  # any broker that already runs

Tests that kill a broker or look into its folder start one for themselves (`private_broker`).
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from client_agents import (
    Agent,
    AgentClient,
    java_command,
    java_missing,
    kafkajs_command,
    kafkajs_missing,
)
from client_model import Client
from secured_fixtures import secured_broker, secured_clients  # noqa: F401 (fixtures)

from bench.brokers import KINDS, BrokerProcess

os.environ.setdefault("MOLDAU_CONTACT_SECONDS", "60")  # a busy machine's broker may take long to answer

KIND = os.environ.get("MOLDAU_TEST_BROKER", "moldau")
OLD_JAVA = "java-3.9.1"  # the last Java client of transactions v1
CLIENT_NAMES = ("confluent", "kafka-python", "aiokafka", "kcat", "kafkajs", "java")
# Short intervals, so that a rebalance takes a fraction of a second; everything else is as shipped.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here talks to a broker over a socket."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.client)


def start_broker(folder: Path, **settings: str) -> BrokerProcess:
    """A broker of the kind under test with a data folder of its own."""
    return KINDS[KIND](folder, {**SETTINGS, **settings}).start()


@pytest.fixture(scope="session", autouse=True)
def no_clients_left() -> Iterator[None]:
    """The first fixture, so the last to end. Clients that lie about in cycles would try brokers that are
    gone, and print that they cannot, for as long as another worker has tests.
    """
    yield
    gc.collect()


@pytest.fixture(scope="session")
def broker_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | None]:
    """The session's broker, or None where a running one was named."""
    if os.environ.get("MOLDAU_TEST_BOOTSTRAP"):
        yield None
        return
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def bootstrap(broker_process: BrokerProcess | None) -> str:
    """host:port of the session's broker."""
    return broker_process.address if broker_process else os.environ["MOLDAU_TEST_BOOTSTRAP"]


@pytest.fixture
def private_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers for one test alone: `private_broker(**settings)`."""
    brokers: list[BrokerProcess] = []

    def start(**settings: str) -> BrokerProcess:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        brokers.append(start_broker(tmp_path / f"broker{len(brokers)}", **named))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.kill()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:80]
    return f"{name}-{os.urandom(4).hex()}"


@pytest.fixture
def group(topic: str) -> str:
    """A group name that no other test uses."""
    return f"group-{topic}"


@pytest.fixture(scope="session")
def client_by_name(
    bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Client]]:
    """Gives a client by its name, made on first use; skips the test where it cannot run here."""
    clients: dict[str, Client] = {}

    def get(name: str) -> Client:
        if name not in clients:
            clients[name] = make_client(name, bootstrap, tmp_path_factory.getbasetemp())
        return clients[name]

    yield get
    for client in clients.values():
        client.close()


def make_client(name: str, bootstrap: str, log_folder: Path) -> Client:
    """A client bound to a broker."""
    if name == "confluent":
        from client_confluent import ConfluentClient

        return ConfluentClient(bootstrap)
    if name == "kafka-python":
        from client_kafka_python import KafkaPythonClient

        return KafkaPythonClient(bootstrap)
    if name == "aiokafka":
        from client_aiokafka import AiokafkaClient

        return AiokafkaClient(bootstrap)
    if name == "kcat":
        if shutil.which("kcat") is None:
            pytest.skip("kcat is not on the PATH (Debian package kcat)")
        from client_kcat import KcatClient

        return KcatClient(bootstrap)
    reason = java_missing() if name.startswith("java") else kafkajs_missing()
    if reason:
        pytest.skip(reason)
    if name.startswith("java"):
        command = java_command(bootstrap, old_version=name.removeprefix("java").removeprefix("-"))
    else:
        command = kafkajs_command(bootstrap)
    return AgentClient(name, Agent(command, log_folder / f"{name}.log"))


@pytest.fixture(params=CLIENT_NAMES)
def client(request: pytest.FixtureRequest, client_by_name: Callable[[str], Client]) -> Client:
    """Each client in turn."""
    return client_by_name(request.param)


@pytest.fixture
def java(client_by_name: Callable[[str], Client]) -> AgentClient:
    """The official Java client with its Admin."""
    agent = client_by_name("java")
    assert isinstance(agent, AgentClient)
    return agent


@pytest.fixture
def kafkajs(client_by_name: Callable[[str], Client]) -> AgentClient:
    """KafkaJS with its admin."""
    agent = client_by_name("kafkajs")
    assert isinstance(agent, AgentClient)
    return agent
