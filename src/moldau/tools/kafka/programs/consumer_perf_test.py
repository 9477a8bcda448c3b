"""kafka-consumer-perf-test: the load of perf/consuming.py, with Kafka's options and CSV lines."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.tools.kafka.formats.client_metrics import ClientMetrics
from moldau.tools.kafka.lines.options import Given, Long, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError
from moldau.tools.kafka.queries.reaching import (
    BROKER_LIST,
    COMMAND_CONFIG,
    ZOOKEEPER,
    client_settings,
    librdkafka,
)
from moldau.tools.kafka.queries.topic_subscription import TopicSubscription

if TYPE_CHECKING:
    from moldau.tools.commands.perf.consuming import Read, Wanted

TIME = "yyyy-MM-dd HH:mm:ss:SSS"
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DETAILED_HEADER = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_JAVA_TIME = re.compile(r"y+|M+|d+|H+|h+|m+|s+|S+|'[^']*'|[^yMdHhmsS']+")

PARSER = Parser(
    "kafka-consumer-perf-test",
    "Reads records as fast as possible, and shows the rate.",
    [
        Option("bootstrap-server", "server to connect to", "A broker. REQUIRED."),
        BROKER_LIST,
        ZOOKEEPER,
        COMMAND_CONFIG,
        Option("command-property", "prop1=val1", "A client setting."),
        Option("consumer.config", "config file", "The old name of --command-config."),
        Option("topic", "topic", "The topic."),
        Option("include", "Java regex (String)", "Instead: a regular expression of topics."),
        Option("group", "gid", "The group; default: a new one."),
        Option("fetch-size", "size", "The most bytes of a partition that are fetched at once.", kind=int),
        flag("from-latest", "Begin at the end where the group has no offset yet."),
        Option("socket-buffer-size", "size", "The size of the receive buffer.", kind=int, default=2_097_152),
        flag("show-detailed-stats", "A line for each reporting interval, instead of one."),
        Option("reporting-interval", "interval_ms", "Milliseconds between lines.", kind=Long, default=5000),
        Option("date-format", "date format", "As Java's SimpleDateFormat.", default=TIME),
        flag("hide-header", "No headings."),
        flag("print-metrics", "Print the client's counters in the end."),
        Option("num-records", "count", "How many records. REQUIRED.", kind=Long),
        Option("messages", "count", "The old name of --num-records.", kind=Long),
        Option("timeout", "milliseconds", "Stop after so long without a record.", kind=Long, default=10_000),
        Option("threads", "count", "Kafka ignores it, too.", kind=int, default=10),
        Option("num-fetch-threads", "count", "Kafka ignores it, too.", kind=int, default=1),
        flag("new-consumer", "Kafka's only consumer now."),
    ],
)


def main(words: Sequence[str]) -> int:
    """Read, and print what Kafka's tool prints. Returns the exit code."""
    given = PARSER.parse(words)
    timeout_ms = given.number("timeout") or 0
    wanted = _wanted(given, timeout_ms)
    formatting = java_time_format(given.text("date-format") or TIME)
    metrics = ClientMetrics("consumer")
    settings = librdkafka(given, client_id="perf-consumer-client") | {  # these go before those of files
        "group.id": given.text("group") or f"perf-consumer-{random.SystemRandom().randrange(100_000)}",
        "auto.offset.reset": "latest" if given.flag("from-latest") else "earliest",
        "max.partition.fetch.bytes": given.number("fetch-size") or 1_048_576,
        "socket.receive.buffer.bytes": given.number("socket-buffer-size"),
        "check.crcs": False,
    }
    if given.flag("print-metrics"):
        settings |= metrics.settings
    detailed = given.flag("show-detailed-stats")
    if not given.flag("hide-header"):
        print(DETAILED_HEADER if detailed else HEADER)
    from moldau.tools.commands.perf.consuming import ConsumerLoad

    def report(total: Read, before: Read) -> None:
        if detailed:
            print(_detail(total, before, time.time(), formatting))
            sys.stdout.flush()

    interval_seconds = (given.number("reporting-interval") or 0) / 1000
    at_end = metrics.refresh if given.flag("print-metrics") else None
    run = ConsumerLoad(wanted, settings, report, interval_seconds, at_end=at_end)
    found = run.run()
    if found.records < wanted.records:
        print(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not detailed:
        print(_total(found, formatting))
    if given.flag("print-metrics"):
        metrics.print()
    return 0


def _wanted(given: Given, timeout_ms: int) -> Wanted:
    """Topics and number of records. CommandLineError, ToolError."""
    from moldau.tools.commands.perf.consuming import Wanted

    if given.flag("messages") == given.flag("num-records"):
        raise CommandLineError(
            "Exactly one of the following arguments is required: [messages], [num-records]",
            PARSER.line([*given.typed, *_number(given)]),
        )
    if given.flag("topic") == given.flag("include"):
        raise CommandLineError(
            "Exactly one of the following arguments is required: [topic], [include]",
            PARSER.line([*given.typed, "--topic", "TOPIC"]) if not given.flag("topic") else "Leave one out.",
        )
    if given.flag("messages"):
        print("Warning: --messages is deprecated. Use --num-records instead.")
    records = given.number("messages") if given.flag("messages") else given.number("num-records")
    pattern = given.text("include")
    if pattern is None:
        return Wanted([given.text("topic") or ""], records or 0, timeout_ms / 1000)
    choose = TopicSubscription(pattern, client_settings(given)).matching
    return Wanted([], records or 0, timeout_ms / 1000, choose)


def _number(given: Given) -> list[str]:
    return [] if given.flag("messages") else ["--num-records", "100000"]


def _total(read: Read, formatting: str) -> str:
    elapsed_ms = max((read.ended - read.began) * 1000, 1e-6)
    join_ms = int(read.rebalance_seconds * 1000)
    fetch_ms = max(elapsed_ms - join_ms, 1e-6)
    return ", ".join(
        [
            moment(read.began, formatting),
            moment(read.ended, formatting),
            *_rates(read.mib, read.records, elapsed_ms),
            str(join_ms),
            str(int(fetch_ms)),
            f"{read.mib * 1000 / fetch_ms:.4f}",
            f"{read.records * 1000 / fetch_ms:.4f}",
        ]
    )


def _rates(mib: float, records: int, elapsed_ms: float) -> list[str]:
    return [
        f"{mib:.4f}",
        f"{mib * 1000 / elapsed_ms:.4f}",
        str(records),
        f"{records * 1000 / elapsed_ms:.4f}",
    ]


def _detail(total: Read, before: Read, now: float, formatting: str) -> str:
    elapsed_ms = max((now - before.ended) * 1000, 1e-6)
    join_ms = (total.rebalance_seconds - before.rebalance_seconds) * 1000
    fetch_ms = max(elapsed_ms - join_ms, 1e-6)
    mib, records = total.mib - before.mib, total.records - before.records
    return ", ".join(
        [
            moment(now, formatting),
            "0",
            f"{total.mib:.4f}",
            f"{mib * 1000 / elapsed_ms:.4f}",
            str(total.records),
            f"{records * 1000 / elapsed_ms:.4f}",
            str(int(join_ms)),
            str(int(fetch_ms)),
            f"{mib * 1000 / fetch_ms:.4f}",
            f"{records * 1000 / fetch_ms:.4f}",
        ]
    )


def java_time_format(text: str) -> str:
    """A format of Java's SimpleDateFormat as one of strftime's; milliseconds are %f. CommandLineError."""
    letters = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "h": "%I", "m": "%M", "s": "%S", "S": "%f"}
    found = ""
    for part in _JAVA_TIME.findall(text):
        if part[0] == "'":
            found += part.strip("'").replace("%", "%%") or "'"
        elif part[0] in letters:
            if part[0] == "M" and len(part) > 2:
                raise CommandLineError(f"--date-format {text}: names of months are not known here")
            found += letters[part[0]] if part != "yy" else "%y"
        else:
            found += part.replace("%", "%%")
    return found


def moment(seconds: float, formatting: str) -> str:
    """A time in the machine's zone."""
    milliseconds = f"{int(seconds * 1000) % 1000:03d}"
    return time.strftime(formatting.replace("%f", milliseconds), time.localtime(seconds))
