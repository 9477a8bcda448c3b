"""The examples of the kit's pages run as they are printed; only the address and the files' places differ."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kit_running import write

from moldau.kit.errors import KitError
from moldau.kit.table import Table
from moldau.kit.topics import Topics
from moldau.testing import Broker

DOCS = Path(__file__).parents[2] / "docs"
LIMIT_SECONDS = 100
PROGRAM = """
import sqlite3, threading

with sqlite3.connect("orders.db") as database:
    database.execute("CREATE TABLE orders (value)")


def handle(record):
    print("handled", record.value().decode())
    loop.stop()


def stopping(write):
    def one(connection, records):
        write(connection, records)
        loop.stop()

    return one


def lines_after(position):
    return [(f"line {number}", number) for number in range((position or 0) + 1, (position or 0) + 3)]


def price_of(record):
    return record.value() + b"=1.09"


{batched}
{spool}
print("spooled", records)
{resuming}
with Resuming("events", source="app.log", bootstrap_servers="localhost:9092") as out:
    print("resumed", out.position)
{table}
print("table", len(prices))
{delivery}
{target}
print("stored", sqlite3.connect("orders.db").execute("SELECT value FROM orders").fetchall())
{requests}
    print("priced", price, future.result(60))
"""


def examples(page: str) -> str:
    """The first block of Python on a page."""
    found = re.search(r"```python\n(.*?)```", (DOCS / f"kit-{page}.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_pages_are_right_as_printed(shared_broker: Broker, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    topics = [
        NewTopic(name, 1) for name in ("prices.requests", "prices.replies", "events", "orders", "clicks")
    ]
    topics.append(NewTopic("prices", 1, config={"cleanup.policy": "compact"}))
    for made in admin.create_topics(topics).values():
        made.result(60)
    write(shared_broker.bootstrap_servers, "orders", ["one"])
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})
    producer.produce("prices", "0.006", "USDJPY")
    assert producer.flush(60) == 0
    pages = {page: examples(page) for page in re.findall(r"^\{(\w+)\}$", PROGRAM, re.MULTILINE)}
    program = PROGRAM
    for page, text in pages.items():
        program = program.replace(f"{{{page}}}", text)
    for printed, here in (
        ("localhost:9092", shared_broker.bootstrap_servers),
        ("broker:9092", shared_broker.bootstrap_servers),
        ("/var/spool/orders", "spool"),
        ("/var/lib/app/", ""),
        ("loop.run(write)", "loop.run(stopping(write))"),
        (".run(price_of)  # one process", ".run"),
    ):
        assert printed in program, printed
        program = program.replace(printed, here)
    program = re.sub(r"^(Responder\(.*\)\.run)$", RESPONDER, program, flags=re.MULTILINE)
    (tmp_path / "pages.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "pages.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "spooled [b'one', b'two']",
        "resumed 2",
        "table 2",
        "handled one",
        "stored [(b'one',)]",
        "priced b'EURUSD=1.09' b'USDJPY=1.09'",
    ]


RESPONDER = r"threading.Thread(target=\1, args=(price_of,), daemon=True).start()"


def test_a_topic_that_is_missing_is_told_with_the_line_to_type(shared_broker: Broker) -> None:
    with pytest.raises(KitError, match=r"Make it first: moldau topics create nosuch$"):
        Topics({"bootstrap.servers": shared_broker.bootstrap_servers}).describe("nosuch")
    with pytest.raises(KitError, match=r"moldau topics create nosuch --config cleanup\.policy=compact"):
        Table("nosuch", bootstrap_servers=shared_broker.bootstrap_servers).start()
