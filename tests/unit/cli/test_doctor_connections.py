"""`moldau doctor` in front of listeners that are not what the client takes them for: what it says of each."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.tools.doctor.addresses import Advertised, check_advertised, check_bootstrap
from moldau.tools.doctor.findings import Finding, Grade, Report
from moldau.tools.doctor.handshake import Reached, Trouble, reach
from moldau.tools.doctor.round_trip import Written, _compare_clocks
from moldau.tools.doctor.transport import Transport, transport_of
from moldau.tools.shared.errors import UsageError

PLAIN = transport_of({})
WAIT_SECONDS = 20.0
Serve = Callable[[socket.socket], None]


@contextmanager
def listener(serve: Serve) -> Iterator[int]:
    """A port at which `serve` gets each connection, in a thread each."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=_accept, args=(server, serve), daemon=True).start()
        yield server.getsockname()[1]


def _accept(server: socket.socket, serve: Serve) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_guarded, args=(serve, connection), daemon=True).start()


def _guarded(serve: Serve, connection: socket.socket) -> None:
    with connection:
        try:
            serve(connection)
        except (OSError, struct.error):
            return


def broker(
    *,
    apis: tuple[int, ...] = (0, 1, 2, 3, 10, 17, 18),
    mechanisms: tuple[str, ...] = (),
    cluster_id: str = "here",
    wants_login: bool = False,
) -> Serve:
    """Answers ApiVersions, SaslHandshake and Metadata, as a listener of this kind does."""

    def serve(connection: socket.socket) -> None:
        while True:
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            frame = connection.recv(size, socket.MSG_WAITALL)
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if key == ApiVersionsRequest.KEY:
                rows = [ApiVersion(api_key=each, min_version=0, max_version=9) for each in apis]
                body = ApiVersionsResponse(api_keys=rows).encode(version)
            elif key == SaslHandshakeRequest.KEY:
                asked = SaslHandshakeRequest.decode(frame[14 + len("moldau-doctor") - 4 :], version)
                known = asked.mechanism in mechanisms
                error_code = 0 if known else 33 if mechanisms else 34
                body = SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms)).encode(
                    version
                )
            elif key == MetadataRequest.KEY and not wants_login:
                one = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)
                body = MetadataResponse(brokers=[one], cluster_id=cluster_id).encode(version)
            else:
                return
            connection.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)

    return serve


def trouble_of(port: int, transport: Transport = PLAIN, host: str = "127.0.0.1") -> Trouble:
    with pytest.raises(Trouble) as raised:
        reach(host, port, transport, WAIT_SECONDS)
    return raised.value


def closed_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


def test_a_listener_that_is_a_broker() -> None:
    with listener(broker()) as port:
        found = reach("127.0.0.1", port, PLAIN, WAIT_SECONDS)
    brokers = [number for number, _, _ in found.brokers]
    assert (found.cluster_id, brokers, found.tls, found.mechanisms) == ("here", [1], None, ())
    assert found.apis[3] == (0, 9)


def test_nothing_listens() -> None:
    trouble = trouble_of(closed_port())
    assert trouble.step == "connection"
    assert "refuses the connection" in trouble.message


def test_a_name_that_does_not_exist() -> None:
    trouble = trouble_of(9092, host="no-such-host.invalid")
    assert trouble.step == "name"
    assert "no-such-host.invalid cannot be resolved" in trouble.message


def test_a_name_too_long_for_the_dns() -> None:
    assert trouble_of(9092, host="x" * 70 + ".example").step == "name"


def test_a_web_server() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listener(serve) as port:
        assert "is a web server" in trouble_of(port).message


def test_another_program() -> None:
    with listener(lambda connection: connection.sendall(b"220 mail.example ESMTP\r\n")) as port:
        assert "does not speak Kafka's protocol" in trouble_of(port).message


def test_a_listener_that_closes_at_once() -> None:
    with listener(lambda connection: None) as port:
        assert "closed the connection" in trouble_of(port).message


def test_a_listener_that_never_answers() -> None:
    done = threading.Event()
    with listener(lambda connection: (done.wait(), None)[1]) as port, pytest.raises(Trouble) as raised:
        reach("127.0.0.1", port, PLAIN, 0.2)
    done.set()
    assert "accepts the connection and does not answer" in raised.value.message


def test_a_listener_that_wants_a_login() -> None:
    with listener(broker(wants_login=True)) as port:
        trouble = trouble_of(port)
    assert trouble.step == "SASL"
    assert "wants a login" in trouble.remedy


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are() -> None:
    login = transport_of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
    with listener(broker(mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512"))) as port:
        trouble = trouble_of(port, login)
    assert trouble.message == "the broker does not offer PLAIN, only SCRAM-SHA-256, SCRAM-SHA-512"
    assert trouble.remedy == "set -X sasl.mechanism=SCRAM-SHA-256"
    with listener(broker(mechanisms=("PLAIN",))) as port:
        assert reach("127.0.0.1", port, login, WAIT_SECONDS).mechanisms == ("PLAIN",)
    with listener(broker()) as port:
        assert trouble_of(port, login).message == "the listener does not use SASL"


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="uses no SASL"):
        transport_of({"sasl.mechanism": "PLAIN"})
    with pytest.raises(UsageError, match="none of plaintext"):
        transport_of({"security.protocol": "tls"})
    with pytest.raises(UsageError, match=r"trust\.jks: the file cannot be read"):
        transport_of({"security.protocol": "ssl", "ssl.truststore.location": "trust.jks"})
    jaas = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "X required password=hush"}
    with pytest.raises(UsageError, match="';' is missing") as raised:
        transport_of({"security.protocol": "sasl_ssl", **jaas})
    assert "hush" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot be used"):
        transport_of({"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"})


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a self-signed certificate for localhost (cert.pem) and its key (key.pem)."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, is missing")
    folder = tmp_path_factory.mktemp("doctor")
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
    files = ["-keyout", "key.pem", "-out", "cert.pem", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words.split(), *files], cwd=folder, check=True, capture_output=True)
    return folder


@contextmanager
def tls_broker(certificate: Path, *, wants_certificate: bool = False) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate / "cert.pem")

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as inside:
            _recv_all_broker(inside)

    with listener(serve) as port:
        yield port


def _recv_all_broker(inside: ssl.SSLSocket) -> None:
    """The broker above, over TLS: such sockets know no MSG_WAITALL."""

    class Reader:
        def recv(self, count: int, _flags: int = 0) -> bytes:
            parts = b""
            while len(parts) < count:
                part = inside.recv(count - len(parts))
                if not part:
                    return b""
                parts += part
            return parts

        def sendall(self, data: bytes) -> None:
            inside.sendall(data)

    broker()(Reader())  # type: ignore[arg-type]


def tls(certificate: Path, **more: str) -> Transport:
    settings = {"security.protocol": "ssl", "ssl.ca.location": str(certificate / "cert.pem")}
    return transport_of({**settings, **{name.replace("_", "."): value for name, value in more.items()}})


def test_tls_with_a_trusted_certificate(certificate: Path) -> None:
    with tls_broker(certificate) as port:
        found = reach("localhost", port, tls(certificate), WAIT_SECONDS)
    assert found.cluster_id == "here"
    assert found.tls is not None
    assert found.tls.startswith("TLSv1.")


def test_tls_mix_ups(certificate: Path) -> None:
    with tls_broker(certificate) as port:
        assert trouble_of(port).message.endswith("speaks TLS")
        untrusted = trouble_of(port, transport_of({"security.protocol": "ssl"}), "localhost")
        assert "is not trusted" in untrusted.message
        assert "ssl.ca.location" in untrusted.remedy
        other_name = trouble_of(port, tls(certificate), "127.0.0.1")
        assert "is for another name" in other_name.message
        unchecked = tls(certificate, ssl_endpoint_identification_algorithm="none")
        assert reach("127.0.0.1", port, unchecked, WAIT_SECONDS).cluster_id == "here"
    with listener(broker()) as port:
        assert "does not speak TLS: it answers without it" in trouble_of(port, tls(certificate)).message


def test_a_client_certificate_that_is_wanted(certificate: Path) -> None:
    with tls_broker(certificate, wants_certificate=True) as port:
        assert "ssl.certificate.location" in trouble_of(port, tls(certificate), "localhost").remedy
        identity = tls(
            certificate,
            ssl_certificate_location=str(certificate / "cert.pem"),
            ssl_key_location=str(certificate / "key.pem"),
        )
        assert reach("localhost", port, identity, WAIT_SECONDS).cluster_id == "here"


# Several addresses


def report() -> tuple[Report, list[Finding]]:
    told: list[Finding] = []
    return Report(told.append), told


def graded(told: list[Finding], grade: Grade) -> list[str]:
    return [f"{each.message} -> {each.remedy}" for each in told if each.grade is grade]


def test_one_bootstrap_address_is_enough() -> None:
    found, told = report()
    with listener(broker()) as port:
        reached = check_bootstrap(
            found, [("127.0.0.1", closed_port()), ("127.0.0.1", port)], PLAIN, WAIT_SECONDS
        )
    assert len(reached) == 1
    assert isinstance(reached[0], Reached)
    assert graded(told, Grade.FAILED) == []
    assert any("clients use the others" in each for each in graded(told, Grade.WARNING))


def test_bootstrap_addresses_of_two_clusters() -> None:
    found, told = report()
    with listener(broker()) as one, listener(broker(cluster_id="there")) as other:
        check_bootstrap(found, [("127.0.0.1", one), ("127.0.0.1", other)], PLAIN, WAIT_SECONDS)
    (failure,) = graded(told, Grade.FAILED)
    assert "different clusters: here, there" in failure


def test_a_port_that_is_no_brokers() -> None:
    found, told = report()
    with listener(broker(apis=(18, 3, 10))) as port:
        check_bootstrap(found, [("127.0.0.1", port)], PLAIN, WAIT_SECONDS)
    (failure,) = graded(told, Grade.FAILED)
    assert "does not serve Produce, Fetch, ListOffsets" in failure


def test_advertised_addresses_that_clients_cannot_use() -> None:
    found, told = report()
    port = closed_port()
    with listener(broker(cluster_id="there")) as other, listener(broker()) as good:
        alive = check_advertised(
            found,
            [
                Advertised(1, "localhost", port),
                Advertised(2, "no-such-host.invalid", 9092),
                Advertised(3, "127.0.0.1", other),
                Advertised(4, "127.0.0.1", good),
                Advertised(5, "127.0.0.1", good),
            ],
            [("broker.example", 9092)],
            "here",
            PLAIN,
            WAIT_SECONDS,
        )
    assert [each.node_id for each in alive] == [4, 5]
    failures = graded(told, Grade.FAILED)
    assert f"such as broker.example:{port}" in failures[0]
    assert "that clients can resolve" in failures[1]
    assert "broker of another cluster answers" in failures[2]
    assert "brokers 4, 5 all advertise" in failures[3]


# Clocks


@pytest.mark.parametrize(
    ("clock_ms", "words"),
    [
        (1_000_005, None),
        (1_000_900, None),
        (1_007_010, "broker 3 is 7 s ahead of this machine"),
        (940_000, "broker 3 is 60 s behind this machine"),
    ],
)
def test_clocks_are_compared_within_the_round_trip(clock_ms: int, words: str | None) -> None:
    found, told = report()
    _compare_clocks(found, [Written(0, 0, took_ms=10, sent_at_ms=1_000_000, clock_ms=clock_ms)], {0: 3})
    (finding,) = told
    assert (finding.message if words else finding.grade) == (words or Grade.OK)
