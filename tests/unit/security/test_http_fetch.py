"""One HTTP request with a deadline, against servers that hang, trickle, flood, redirect and babble."""

import contextlib
import socket
import threading

import pytest

from moldau.common.credentials.http_fetch import fetch, shown

PATIENT_SECONDS = 60.0


@contextlib.contextmanager
def server(serve):
    """A server of one connection after the other; `serve` gets each, its request read."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def loop():
        while not over.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(PATIENT_SECONDS)
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65536)
                serve(connection, request, over)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/keys?x=1"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def answering(*parts):
    def serve(connection, request, over):
        del request, over
        for part in parts:
            connection.sendall(part)

    return serve


def fetched(url, timeout_seconds=PATIENT_SECONDS, **more):
    return fetch(url, timeout_seconds=timeout_seconds, bytes_max=1_000, **more)


def test_a_response_with_a_length_in_chunks_and_until_the_end():
    for parts in (
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nke", b"ys"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nke\r\n2\r\nys\r\n0\r\n\r\n",),
        (b"HTTP/1.0 200 OK\r\n\r\nkeys",),
    ):
        with server(answering(*parts)) as url:
            assert fetched(url) == (200, b"keys")


def test_what_is_sent():
    requests = []

    def serve(connection, request, over):
        del over
        while b"secret" not in request and request.startswith(b"POST"):
            request += connection.recv(65536)
        requests.append(request)
        connection.sendall(b"HTTP/1.1 401 Nope\r\nContent-Length: 0\r\n\r\n")

    with server(serve) as url:
        assert fetched(url).status == 401
        assert fetched(url, body=b"secret", headers={"Authorization": "Basic x"}).status == 401
    get, post = requests
    assert get.startswith(b"GET /keys?x=1 HTTP/1.1\r\n")
    assert post.startswith(b"POST /keys?x=1 HTTP/1.1\r\n")
    assert b"Authorization: Basic x\r\n" in post
    assert post.endswith(b"secret")


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nk"])
def test_a_server_that_hangs(start):
    def serve(connection, request, over):
        del request
        connection.sendall(start)
        over.wait(PATIENT_SECONDS)

    with server(serve) as url, pytest.raises(TimeoutError, match="within"):
        fetched(url, timeout_seconds=0.2)


def test_a_server_that_trickles_does_not_outlast_the_deadline():
    def serve(connection, request, over):
        del request
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        while not over.wait(0.02):
            connection.sendall(b"x")

    with server(serve) as url, pytest.raises(TimeoutError):
        fetched(url, timeout_seconds=0.3)


def test_a_gigabyte_is_not_read():
    sent = []

    def serve(connection, request, over):
        del request
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        while not over.is_set() and sum(sent) < 1 << 30:
            sent.append(connection.send(bytes(65536)))

    with server(serve) as url, pytest.raises(OSError, match="longer than 1000 bytes"):
        fetched(url)
    assert sum(sent) < 64 << 20


@pytest.mark.parametrize("babble", [b"", b"\0\0\0\1\xff", b"HTTP/1.1 200", b"SSH-2.0-x\r\n", b"x" * 100_000])
def test_what_is_no_http(babble):
    with server(answering(babble)) as url, pytest.raises(OSError, match=r"HTTP|closed|reset|peer"):
        fetched(url)


def test_a_redirect_is_not_followed():
    with server(
        answering(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")
    ) as url:
        assert fetched(url).status == 302


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "ftp://host/x", "http://", "http:///x", "host:80"])
def test_what_is_no_url(url):
    with pytest.raises(OSError, match="not an http"):
        fetched(url)


def test_nothing_secret_is_shown():
    assert shown("https://user:secret@host:81/a/b?token=secret") == "https://host:81/a/b"
