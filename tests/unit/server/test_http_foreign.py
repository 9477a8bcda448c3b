"""What is no Kafka request is named, and answered in its own language."""

import pytest

from moldau.broker.server.other_protocols import recognise

LISTENER, HTTP = "127.0.0.1:9092", "127.0.0.1:9640"


def seen(first_bytes: bytes, http_address: str | None = HTTP):
    return recognise(first_bytes, listener=LISTENER, http_address=http_address)


def test_a_browser_gets_a_page_with_the_way_on() -> None:
    it = seen(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:9092\r\nUser-Agent: x")
    head, _, body = it.answer.partition(b"\r\n\r\n")
    assert it.kind == "http"
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"http://127.0.0.1:9640/" in body
    assert b"bootstrap.servers=127.0.0.1:9092" in body


def test_head_gets_no_body_and_a_missing_health_page_is_admitted() -> None:
    assert seen(b"HEAD / HTTP/1.1\r\n").answer.endswith(b"\r\n\r\n")
    assert b"moldau.http.listener is empty" in seen(b"POST /topics/x HTTP/1.1\r\n", None).answer


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_tls_hello_is_named_and_the_connection_ends(version: int) -> None:
    it = seen(bytes((0x16, 3, version, 2, 0, 1, 0, 1, 252, 3, 3)))
    assert it.kind == "tls"
    assert "security.protocol=PLAINTEXT" in it.sentence
    assert it.answer == b"", "an alert would be read as that of a TLS port"


@pytest.mark.parametrize(
    ("first_bytes", "kind", "says"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2", "HTTP/2"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh", "SSH"),
        (b"hello there\r\n", "text", "hello there"),
        (b"\xff\xff\xff\xff\x00\x12", "length", "length is -1"),
        (b"\x00\x00\x00\x00", "length", "length is 0"),
        (b"\x7f\xff\xff\xff\x00\x12\x00\x03", "length", "claims 2147483647 bytes"),
        (b"\x16", "short", "no Kafka request"),
        (b"", "short", "no Kafka request"),
    ],
)
def test_all_else_gets_a_sentence_and_no_answer(first_bytes: bytes, kind: str, says: str) -> None:
    it = seen(first_bytes)
    assert it.kind == kind
    assert says in it.sentence
    assert it.answer == b""
    assert "\n" not in it.sentence
