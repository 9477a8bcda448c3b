"""A console for tests, beside a broker with records that look for trouble."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from confluent_kafka import Consumer, Producer

from moldau.services.console.app import serve_console
from moldau.services.console.settings import console_configuration
from moldau.services.http.server import ServerThread
from moldau.testing import Broker

TROUBLE = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>{{7*7}}'\"&"
"""A key, value, header or group that would do something if it were taken for HTML."""


@contextmanager
def console(broker: Broker, **settings: str) -> Iterator[str]:
    """The address of a console of this broker."""
    texts = {
        "bootstrap.servers": broker.bootstrap_servers,
        "listeners": "http://127.0.0.1:0",
        "moldau.console.refresh.ms": "1000",
        "moldau.console.health.urls": f"http://{broker.http_address}",
        **{name if "." in name else name.replace("_", "."): value for name, value in settings.items()},
    }
    configuration, _ = console_configuration(texts)
    with ServerThread(lambda: serve_console(configuration), "console") as thread:
        yield thread.served.url


CONNECTORS = {
    "orders-to-pg": {
        "status": {
            "name": "orders-to-pg",
            "type": "sink",
            "connector": {"state": "RUNNING", "worker_id": "w:8083"},
            "tasks": [
                {
                    "id": 0,
                    "state": "FAILED",
                    "worker_id": "w:8083",
                    "trace": "ConnectException: stop\n\tat a.B\nCaused by: PSQLException: no table",
                },
                {"id": 1, "state": "RUNNING", "worker_id": "w:8083"},
            ],
        },
        "info": {
            "config": {"connector.class": "io.Sink", "connection.password": "hunter2", "topics": TROUBLE}
        },
    }
}


class _Workers(BaseHTTPRequestHandler):
    """Answers as a worker of Kafka Connect does; `asked` are the changes that it was told to make."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        name = next(iter(CONNECTORS))
        if "expand" in self.path:
            self._answer(CONNECTORS)
        elif self.path.endswith("/status"):
            self._answer(CONNECTORS[name]["status"])
        else:
            self._answer(CONNECTORS[name]["info"])

    def do_PUT(self) -> None:
        self.asked.append(self.path)
        self._answer(None)

    do_POST = do_PUT

    def _answer(self, value: object) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(202 if value is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def connect_workers() -> Iterator[tuple[str, list[str]]]:
    """The address of workers of Kafka Connect, and what they are told to change."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Workers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", _Workers.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def filled(broker: Broker) -> None:
    """Topics, records, a group that is behind, and one with a name that looks for trouble."""
    broker.create_topic("orders", 3)
    broker.create_topic("empty", 1)
    broker.create_topic("customers", 1, **{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(60):
        value = {"id": number, "amount": number * 10, "user": {"name": "Jana", "card": "4711"}}
        headers = [("trace", f"t-{number}".encode())]
        producer.produce("orders", json.dumps(value), f"eu-{number}", number % 3, headers=headers)
    producer.produce("orders", TROUBLE, TROUBLE, 0, headers=[(TROUBLE, TROUBLE.encode())])
    producer.produce("orders", b"\x00\x01\xff", None, 1)
    producer.produce("orders", None, "tombstone", 2)
    producer.flush()
    for group in ("billing", TROUBLE):
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
            }
        )
        consumer.subscribe(["orders"])
        consumer.consume(5, 60)
        consumer.commit(asynchronous=False)
        consumer.close()
