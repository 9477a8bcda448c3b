"""kafka-verifiable-producer: sends numbers and prints a JSON line for each, as Kafka's system tests read
them.

{"timestamp":1,"name":"startup_complete"}
{"timestamp":1,"name":"producer_send_success","key":null,"value":"0","offset":0,"topic":"t","partition":0}
{"timestamp":1,"name":"producer_send_error","key":...,"value":...,"topic":"t","exception":...,"message":...}
{"timestamp":1,"name":"shutdown_complete"}
{"timestamp":1,"name":"tool_data","sent":1,"acked":1,"target_throughput":-1,"avg_throughput":1.0}
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from moldau.tools.kafka.lines.subcommands import Subcommands, whole
from moldau.tools.kafka.problems import Ended

OUTSTANDING_RECORDS_MAX = 20_000
_WAIT_SECONDS = 0.05


def main(words: Sequence[str]) -> int:
    """Send until there are enough, or until SIGTERM or SIGINT. Returns the exit code."""
    try:
        given = _parser().parse_args(words or ["--help"])
    except Ended as help_:
        raise Ended(str(help_), 1 if words else 0, on_stdout=True) from None  # as Kafka's
    return _Run(given).run()


def _parser() -> Subcommands:
    parser = Subcommands(
        prog="verifiable-producer", description="Sends numbers, and prints a JSON object for each of them."
    )
    parser.add_argument("--topic", required=True, help="Where to.")
    parser.add_argument("--max-messages", type=whole(32), default=-1, help="How many; -1: until it is ended.")
    parser.add_argument(
        "--throughput", type=whole(32), default=-1, help="Records a second; -1: all that goes."
    )
    parser.add_argument("--acks", type=whole(32), choices=(0, 1, -1), default=-1, help="0, 1 or -1.")
    parser.add_argument("--producer.config", dest="config", help="The old name of --command-config.")
    parser.add_argument("--command-config", help="A file of client settings.")
    parser.add_argument(
        "--message-create-time", type=whole(64), default=-1, help="The first record's timestamp."
    )
    parser.add_argument("--value-prefix", type=whole(32), help="Values are PREFIX.NUMBER.")
    parser.add_argument("--repeating-keys", type=whole(32), help="Keys are 0 to this, again and again.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--bootstrap-server", help="A broker, as HOST:PORT.")
    which.add_argument("--broker-list", help="The old name of --bootstrap-server.")
    return parser


def say(name: str, **fields: Any) -> None:
    """Print one event."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    sys.stdout.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n")
    sys.stdout.flush()


class _Run:
    def __init__(self, given: Any) -> None:
        self._given = given
        self._stopping = False
        self._acked = 0
        self._sent = 0

    def run(self) -> int:
        from confluent_kafka import Producer

        producer = Producer(settings_of(self._given, acks=self._given.acks))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        say("startup_complete")
        began = time.monotonic()
        rate = self._given.throughput
        while not self._stopping and self._sent != self._given.max_messages:
            if rate == 0:  # as Kafka's: never send
                producer.poll(_WAIT_SECONDS)
                continue
            ahead = began + self._sent / rate - time.monotonic() if rate > 0 else 0
            if ahead > 0:
                producer.poll(min(ahead, _WAIT_SECONDS))
                continue
            self._send(producer)
            producer.poll(0)
            while len(producer) >= OUTSTANDING_RECORDS_MAX and not self._stopping:
                producer.poll(_WAIT_SECONDS)
        producer.flush()
        say("shutdown_complete")
        seconds = time.monotonic() - began
        say(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=rate,
            avg_throughput=self._acked / seconds,
        )
        return 0

    def _send(self, producer: Any) -> None:
        from confluent_kafka import KafkaException

        given, number = self._given, self._sent
        key = str(number % given.repeating_keys) if given.repeating_keys else None
        value = f"{given.value_prefix}.{number}" if given.value_prefix is not None else str(number)
        self._sent += 1
        more = {}
        if given.message_create_time != -1:
            more["timestamp"] = given.message_create_time + number
        while True:
            try:
                producer.produce(given.topic, value, key, on_delivery=self._answered, **more)
                return
            except BufferError:
                producer.poll(_WAIT_SECONDS)
            except KafkaException as problem:
                self._refused(problem.args[0], key, value)
                return

    def _refused(self, error: Any, key: str | None, value: str) -> None:
        failed = {"exception": f"class {error.name()}", "message": error.str()}
        say("producer_send_error", key=key, value=value, topic=self._given.topic, **failed)

    def _answered(self, error: Any, record: Any) -> None:
        key = None if record.key() is None else record.key().decode()
        value = record.value().decode()
        if error is not None:
            self._refused(error, key, value)
            return
        self._acked += 1
        place = {"offset": record.offset(), "topic": record.topic(), "partition": record.partition()}
        say("producer_send_success", key=key, value=value, **place)

    def _stop(self, number: int, frame: Any) -> None:
        self._stopping = True


def settings_of(given: Any, **more: Any) -> dict[str, Any]:
    """librdkafka's settings: the tool's own go last, as Kafka's do. ToolError if no broker answers."""
    from moldau.tools.kafka.java.java_settings import translate
    from moldau.tools.kafka.java.properties import read_properties
    from moldau.tools.kafka.queries.reaching import require_client
    from moldau.tools.shared.connection import QUIET

    file = given.command_config or given.config
    java = read_properties(file) if file else {}
    theirs = translate(java)
    servers = given.bootstrap_server or given.broker_list
    require_client(servers, java)
    ours = {name.replace("_", "."): value for name, value in more.items()}
    return {"logger": QUIET, **theirs, "bootstrap.servers": servers, **ours}
