"""What `moldau status --connect` says of connectors."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from moldau.tools.commands.status.connectors import ask_connectors, show_connectors


class Worker(BaseHTTPRequestHandler):
    """Answers /health with one failed task."""

    def do_GET(self) -> None:
        body = json.dumps({"status": "healthy", "message": "", "failed": {"to-0": "no space"}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Worker)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_failed_is_named_with_its_cause(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = ask_connectors(url)
    assert found.severity == 1
    show_connectors(found)
    assert "connect: to-0: no space" in "".join(capsys.readouterr())


def test_a_worker_that_is_away_is_said() -> None:
    found = ask_connectors("http://127.0.0.1:1")
    assert (found.status, found.severity) == ("unreachable", 1)
