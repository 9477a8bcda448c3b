"""An agent in a process of its own, for tests: start, kill, stop; and a topic read back."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

PATIENCE_SECONDS = 60


class LocalAgent:
    """`moldau agent run` in `folder`, with other arguments."""

    def __init__(self, folder: Path, bootstrap: str, *arguments: str) -> None:
        self.folder = folder
        self.socket = folder / "agent.sock"
        self.ready = {}
        self._log = folder.parent / f"{folder.name}.log"
        self._command = [sys.executable, "-m", "moldau", "agent", "run", "-d", str(folder), "-b", bootstrap]
        self._command += ["--http", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--json", *arguments]
        self.process = None

    def start(self):
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        assert line, self.log()
        self.ready = json.loads(line)
        return self

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self._log.read_text()

    def kill(self):
        self.process.kill()
        self._reap()

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self._reap()

    def _reap(self):
        code = self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()
        return code

    def status(self):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(self.socket))
            connection.sendall(b"?status\n")
            with connection.makefile("rb") as answers:
                return json.loads(answers.readline())

    def __enter__(self):
        return self.start()

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.kill()


def wait_for(condition, what):
    """Return the condition's first true value."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


def read_topic(bootstrap, topic, count, partition=0):
    """The committed records of a partition, at least `count` of them, then whatever follows until its end."""
    return _read(bootstrap, topic, lambda records: len(records) >= count, partition)


def read_until(bootstrap, topic, value):
    """As `read_topic`, until this value has come."""
    return _read(bootstrap, topic, lambda records: any(record.value() == value for record in records))


def _read(bootstrap, topic, enough, partition=0):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    records, at_end = [], False
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while not at_end or not enough(records):
            assert time.monotonic() < until, f"{len(records)} records of {topic} came, not all"
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                records.append(message)
                at_end = False
            elif message.error().name() == "_PARTITION_EOF":
                at_end = True
        return records
    finally:
        consumer.close()
