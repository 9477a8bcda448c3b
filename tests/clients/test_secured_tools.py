"""Kafka's own commands for ACLs, users, quotas and delegation tokens, unmodified, with `--command-config`.

All run in one JVM (java/src/moldau/Tools.java): a start of its own costs each one to two seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from client_agents import Agent, AgentError, java_missing, java_program
from client_model import eventually
from secured_clients import REFUSED_TOPIC, Clients
from secured_fixtures import SecuredBroker

from bench import apache_kafka
from bench.secured import write_settings

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
reason = apache_kafka.available() or java_missing()
pytestmark = [
    pytest.mark.xdist_group("secured"),
    pytest.mark.skipif(reason is not None, reason=str(reason)),
]

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(secured_broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """`tool(main_class, *arguments)`: what it printed; it runs as admin unless told `user`."""
    folder = tmp_path_factory.mktemp("tools")
    command = java_program("moldau.Tools")
    at = command.index("-cp") + 1
    command[at] = f"{apache_kafka.libraries()}/*:{command[at]}"
    agent = Agent(command, folder / "tools.log")

    def run(main_class: str, *arguments: str, user: str = "admin", code: int = 0) -> str:
        login = secured_broker.login("SASL_SSL", user)
        settings = write_settings(folder / f"{user}.properties", login.java())
        words = ["--bootstrap-server", secured_broker.address("SASL_SSL"), "--command-config", str(settings)]
        done = agent.call("run", tool=main_class, arguments=[*words, *arguments])
        assert done["code"] == code, done["said"]
        return str(done["said"])

    yield run
    agent.close()


def test_acls_are_added_listed_used_and_removed(
    tool: Tool, secured_broker: SecuredBroker, secured_clients: Clients
) -> None:
    topic = secured_broker.create_topic("tools-topic")
    address, bob = secured_broker.address("SASL_PLAINTEXT"), secured_broker.login("SASL_PLAINTEXT", "bob")
    producer = ("--allow-principal", "User:bob", "--topic", topic, "--producer")
    consumer = ("--allow-principal", "User:bob", "--topic", topic, "--group", "bob-group", "--consumer")
    said = tool(ACLS, "--add", *producer)
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:bob, host=*, operation={operation}, permissionType=ALLOW)" in said
    tool(ACLS, "--add", *consumer)
    said = tool(ACLS, "--list", "--topic", topic)
    assert "operation=READ" in said
    assert "bob-group" not in said
    assert "bob-group" in tool(ACLS, "--list", "--principal", "User:bob")
    assert secured_clients.exchange("confluent", address, bob, topic, "now he may") == "now he may"
    tool(ACLS, "--remove", "--force", *consumer)
    tool(ACLS, "--remove", "--force", *producer)
    assert topic not in tool(ACLS, "--list", "--topic", topic)
    said = secured_clients.said("confluent", address, bob, topic)
    assert re.search(REFUSED_TOPIC["confluent"], said), said


def test_acls_with_prefix_host_and_denial(tool: Tool) -> None:
    scope = ("--topic", "tools-prefix-", "--resource-pattern-type", "prefixed")
    rule = ("--deny-principal", "User:mallory", "--deny-host", "10.1.2.3", "--operation", "Alter")
    tool(ACLS, "--add", *scope, *rule)
    said = tool(ACLS, "--list", *scope)
    assert "patternType=PREFIXED" in said
    assert "(principal=User:mallory, host=10.1.2.3, operation=ALTER, permissionType=DENY)" in said
    matching = ("--topic", "tools-prefix-1", "--resource-pattern-type", "match")
    assert "User:mallory" in tool(ACLS, "--list", *matching)
    tool(ACLS, "--remove", "--force", *scope)
    assert "User:mallory" not in tool(ACLS, "--list", *matching)


def test_acls_are_not_for_everybody(tool: Tool) -> None:
    said = tool(ACLS, "--list", user="bob", code=1)
    assert "ClusterAuthorizationException" in said


def test_scram_users_are_made_described_and_removed(
    tool: Tool, secured_broker: SecuredBroker, secured_clients: Clients
) -> None:
    topic = secured_broker.create_topic("tools-scram")
    tool(ACLS, "--add", "--allow-principal", "User:dora", "--topic", topic, "--operation", "All")
    user = ("--entity-type", "users", "--entity-name", "dora")
    for config in (
        "SCRAM-SHA-256=[iterations=8192,password=open-sesame]",
        "SCRAM-SHA-512=[password=open-sesame]",
    ):
        tool(CONFIGS, *user, "--alter", "--add-config", config)  # one at a time: Kafka takes no two of a user
    said = tool(CONFIGS, *user, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in said
    assert "SCRAM-SHA-512=iterations=4096" in said
    assert "sesame" not in said
    address = secured_broker.address("SASL_SSL")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = secured_broker.login("SASL_SSL", "dora", mechanism, password="open-sesame")
        assert secured_clients.exchange("confluent", address, login, topic, mechanism) == mechanism
    tool(CONFIGS, *user, "--alter", "--delete-config", "SCRAM-SHA-512")
    login = secured_broker.login("SASL_SSL", "dora", "SCRAM-SHA-512", password="open-sesame")
    assert "_AUTHENTICATION" in secured_clients.said("confluent", address, login, topic)


def test_quotas_of_users_clients_and_addresses(tool: Tool) -> None:
    both = ("--entity-type", "users", "--entity-name", "erin", "--entity-type", "clients", "--entity-default")
    tool(CONFIGS, *both, "--alter", "--add-config", "producer_byte_rate=1048576,request_percentage=12.5")
    said = tool(CONFIGS, *both, "--describe")
    assert "producer_byte_rate=1048576.0" in said
    assert "request_percentage=12.5" in said
    address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    tool(CONFIGS, *address, "--alter", "--add-config", "connection_creation_rate=5")
    assert "connection_creation_rate=5.0" in tool(CONFIGS, *address, "--describe")
    tool(CONFIGS, *both, "--alter", "--delete-config", "producer_byte_rate,request_percentage")
    tool(CONFIGS, *address, "--alter", "--delete-config", "connection_creation_rate")
    assert "byte_rate" not in tool(CONFIGS, *both, "--describe")


def test_delegation_tokens(tool: Tool, secured_broker: SecuredBroker, secured_clients: Clients) -> None:
    topic = secured_broker.create_topic("alice-token")
    said = tool(TOKENS, "--create", "--max-life-time-period", "-1", user="alice")
    found = re.search(r"^(\S+)\s+(\S+==?|\S{40,})\s+User:alice", said, re.MULTILINE)
    assert found, said
    token, hmac = found[1], found[2]
    assert token in tool(TOKENS, "--describe", "--owner-principal", "User:alice", user="alice")
    assert token not in tool(TOKENS, "--describe", user="bob")
    address = secured_broker.address("SASL_SSL")
    login = secured_broker.login("SASL_SSL", token, "SCRAM-SHA-256", password=hmac).with_token()
    assert secured_clients.exchange("java", address, login, topic, "by token") == "by token"
    tool(TOKENS, "--renew", "--renew-time-period", "3600000", "--hmac", hmac, user="alice")
    tool(TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", hmac, user="alice")
    assert token not in tool(TOKENS, "--describe", user="alice")
    assert "SaslAuthenticationException" in secured_clients.said("java", address, login, topic)


def test_a_token_does_not_make_tokens(
    tool: Tool, secured_broker: SecuredBroker, secured_clients: Clients
) -> None:
    agent, address = secured_clients.agent("java"), secured_broker.address("SASL_SSL")
    options = secured_broker.login("SASL_SSL", "alice").java()
    made = agent.call("create_token", address=address, options=options)
    login = secured_broker.login("SASL_SSL", made["id"], "SCRAM-SHA-512", password=made["hmac"]).with_token()

    def refusal() -> str:
        with pytest.raises(AgentError) as refused:
            agent.call("create_token", address=address, options=login.java())
        return str(refused.value)

    # Right after it was made, the token may not have reached the broker.
    said = eventually(lambda: "Authentication failed" not in (said := refusal()) and said)
    assert "DelegationTokenDisabled" in said or "Delegation Token requests are not allowed" in said
