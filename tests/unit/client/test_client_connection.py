"""Options, the first words with a broker, TLS and SASL, against a broker that is played."""

from __future__ import annotations

import pickle
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
from scripted_broker import ScriptedBroker

from moldau.client import errors
from moldau.client.cluster import Cluster, parse_servers
from moldau.client.connection import Connection, ConnectionLost
from moldau.client.errors import ClientError, ClusterTimeout, OptionError, RequestRefused
from moldau.client.options import ClientOptions, parse_options
from moldau.common.protocol.declare import Message
from moldau.common.protocol.messages.fetch import FetchRequest
from moldau.common.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.common.protocol.messages.metadata import MetadataRequest
from moldau.common.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="ann" password="s\\"e;c ret" user_ann="s";'
)


def test_options_are_read_with_and_without_their_prefix() -> None:
    options = parse_options(
        {"kafka.request.timeout.ms": "1500", "fetch.max.bytes": "9", "kafka.check.crcs": "FALSE"}
    )
    assert (options.request_timeout_seconds, options.fetch_bytes, options.check_crcs) == (1.5, 9, False)
    assert parse_options({}) == ClientOptions()
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.request.timeout.ms": "soon"}, "kafka.request.timeout.ms must be a whole number"),
        ({"kafka.fetch.max.bytes": "-1"}, "must lie between 0 and"),
        ({"kafka.check.crcs": "maybe"}, "must be true or false"),
        ({"kafka.security.protocol": "TLS"}, "it may be PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "CRAM"}, "it may be PLAIN, SCRAM"),
        (
            {"kafka.security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "name the user in sasl.username",
        ),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": "x needed;"},
            "kafka.sasl.jaas.config: .* is written as: ",
        ),
        ({"kafka.ssl.ca.location": "/x.pem"}, "has no effect without kafka.security.protocol"),
        ({"sasl.username": "ann"}, "kafka.sasl.username has no effect without kafka.security.protocol"),
        ({"kafka.ssl.ciphers": "x"}, "kafka.ssl.ciphers is a security setting"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "has no effect without kafka.security.protocol"),
        (
            {"security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": "dns"},
            "may be https or none",
        ),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_options(options)


def test_what_jaas_says_in_single_quotes() -> None:
    jaas = JAAS.replace('"', "'")
    options = parse_options({"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas})
    assert options.security.sasl is not None
    assert options.security.sasl.user_and_password() == ("ann", "s'e;c ret")
    assert "ret" not in repr(options)
    assert parse_options({"security.protocol": "PLAINTEXT", "sasl.jaas.config": jaas}).security.sasl is None


def test_an_unknown_option_is_warned_of_once() -> None:
    with pytest.warns(UserWarning, match=r"the option kafka\.some\.thing has no effect"):
        parse_options({"kafka.some.thing": "1"})
    assert (
        parse_options({"kafka.some.thing": "1", "kafka.acks": "all"}, elsewhere={"acks"}) == ClientOptions()
    )


def test_servers_are_host_and_port() -> None:
    assert parse_servers("a:1, b:2,") == [("a", 1), ("b", 2)]
    assert parse_servers("PLAINTEXT://[::1]:9092") == [("::1", 9092)]
    for wrong in ("", "a", "a:b", ":1", "a:0", "a:70000"):
        with pytest.raises(OptionError):
            parse_servers(wrong)


def test_versions_are_agreed_on() -> None:
    with ScriptedBroker({}, versions={MetadataRequest: 9}) as broker:
        connection = Connection("127.0.0.1", broker.port, ClientOptions())
        assert connection.version_of(MetadataRequest) == 9
        assert connection.ask(MetadataRequest(topics=None)).brokers[0].port == broker.port
        with pytest.raises(RequestRefused, match="does not know ListOffsets"):
            connection.ask(ListOffsetsRequest())
        with pytest.raises(RequestRefused, match="speaks Metadata in versions 9 to 9"):
            connection.version_of(MetadataRequest, at_most=5)
        connection.close()
        with pytest.raises(ConnectionLost, match="is closed"):
            connection.send(MetadataRequest())


def test_a_broker_too_old_for_our_first_question_is_understood() -> None:
    old = ScriptedBroker({}, api_versions_newest=2, versions={MetadataRequest: 4})
    with old as broker, Cluster(broker.address) as cluster:
        assert cluster.topics() == {"t": 1}


def test_a_bootstrap_server_that_is_away_is_passed_over() -> None:
    with ScriptedBroker({}) as broker, Cluster(f"127.0.0.1:1,{broker.address}") as cluster:
        assert cluster.topics() == {"t": 1}


def test_what_is_no_broker_is_named() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    with server, pytest.raises(ClientError, match="is not a Kafka broker"):
        Connection("127.0.0.1", server.getsockname()[1], ClientOptions())


def test_a_broker_that_falls_silent_is_given_up() -> None:
    options = {"request.timeout.ms": "50", "default.api.timeout.ms": "200", "retry.backoff.ms": "1"}
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with server, pytest.raises(ClusterTimeout, match=f"cannot list the topics.*127.0.0.1:{port}"):
        Cluster(f"127.0.0.1:{port}", options).topics()


def sasl_broker(accepts: bytes) -> ScriptedBroker:
    def authenticate(request: Message) -> Message:
        assert isinstance(request, SaslAuthenticateRequest)
        if request.auth_bytes == accepts:
            return SaslAuthenticateResponse()
        return SaslAuthenticateResponse(error_code=58, error_message="wrong password")

    handshake = SaslHandshakeResponse(mechanisms=["PLAIN"])
    return ScriptedBroker({SaslHandshakeRequest: lambda _: handshake, SaslAuthenticateRequest: authenticate})


@pytest.mark.parametrize(
    "user", [{"sasl.username": "ann", "sasl.password": 's"e;c ret'}, {"sasl.jaas.config": JAAS}]
)
def test_sasl_plain(user: dict[str, str]) -> None:
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **user}
    with sasl_broker(b'\0ann\0s"e;c ret') as broker, Cluster(broker.address, options) as cluster:
        assert cluster.topics() == {"t": 1}
    with (
        sasl_broker(b"\0ann\0other") as broker,
        pytest.raises(RequestRefused, match="refused the user ann: wrong password"),
    ):
        Cluster(broker.address, options).topics()


def test_a_broker_without_sasl_plain_is_named() -> None:
    handshake = SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256"])
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "ann", "sasl.password": "x"}
    with (
        ScriptedBroker({SaslHandshakeRequest: lambda _: handshake}) as broker,
        pytest.raises(ClientError, match="does not offer SASL/PLAIN, but SCRAM-SHA-256"),
    ):
        Cluster(broker.address, options).topics()


def test_a_session_is_renewed_before_it_ends_also_with_requests_in_flight() -> None:
    """KIP-368: between the requests of a login no others are sent; responses that come early are kept."""
    logins: list[Message] = []

    def authenticate(request: Message) -> Message:
        logins.append(request)
        return SaslAuthenticateResponse(session_lifetime_ms=1_000_000)

    handshake = SaslHandshakeResponse(mechanisms=["PLAIN"])
    answers = {SaslHandshakeRequest: lambda _: handshake, SaslAuthenticateRequest: authenticate}
    options = parse_options({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": JAAS})
    with ScriptedBroker(answers) as broker:
        connection = Connection("127.0.0.1", broker.port, options)
        due_seconds = connection._login_due_seconds
        assert due_seconds is not None
        assert 800 < due_seconds - time.monotonic() < 960
        tickets = [connection.send(MetadataRequest(topics=None)) for _ in range(3)]
        connection._login_due_seconds = time.monotonic()  # its time has come
        tickets.append(connection.send(MetadataRequest(topics=None)))
        assert len(logins) == 2
        assert connection.unanswered == len(tickets)
        for _ in tickets:
            assert connection.receive().topics
        kinds = [type(each) for each in broker.requests]
        login = [SaslHandshakeRequest, SaslAuthenticateRequest]
        assert kinds == [*login, *[MetadataRequest] * 3, *login, MetadataRequest]
        connection.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the PATH")
    folder = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out ca.pem"
    )
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:localhost"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "ca.pem", folder / "key.pem"


def test_tls(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    trusting = {"security.protocol": "SSL", "ssl.ca.location": str(certificate[0])}
    by_name = "ssl.endpoint.identification.algorithm"
    with ScriptedBroker({}, tls=context) as broker:
        with Cluster(broker.address, {**trusting, by_name: "none"}) as cluster:
            assert cluster.topics() == {"t": 1}
        connection = Connection("localhost", broker.port, parse_options(trusting))
        assert connection.ask(MetadataRequest(topics=None)).topics
        connection.close()
        for untrusting in (trusting, {"security.protocol": "SSL"}):
            with pytest.raises(ClientError, match=r"the certificate of 127\.0\.0\.1:\d+ is not trusted"):
                Cluster(broker.address, untrusting).topics()
        with pytest.raises(OptionError, match="/nowhere: the file cannot be read"):
            Connection("127.0.0.1", broker.port, parse_options({**trusting, "ssl.ca.location": "/nowhere"}))


def test_errors_travel_between_processes() -> None:
    for error in (
        errors.OffsetOutOfRange("t", 1, 5, 7, 9),
        errors.RequestRefused("cannot", 29),
        errors.UnknownTopic("there is no topic t"),
        errors.ClusterTimeout("late"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_connection_that_is_lent_is_nobody_elses() -> None:
    with ScriptedBroker({FetchRequest: lambda _: None}) as broker, Cluster(broker.address) as cluster:
        lent = cluster.borrow_leader("t", 0)
        assert cluster.any_broker() is not lent
        cluster.give_back(lent)
        assert not lent.is_open  # another one has taken its place
        lent = cluster.borrow_leader("t", 0)
        cluster.give_back(lent)
        assert cluster.any_broker() is lent
        lent = cluster.borrow_leader("t", 0)
        lent.send(MetadataRequest(topics=None))
        cluster.give_back(lent)
        assert not lent.is_open
