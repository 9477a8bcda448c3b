"""A console for tests, beside a broker with records that look for trouble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

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
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    configuration, _ = console_configuration(texts)
    with ServerThread(lambda: serve_console(configuration), "console") as thread:
        yield thread.served.url


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
