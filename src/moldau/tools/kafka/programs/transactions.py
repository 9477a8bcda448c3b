"""kafka-transactions: list, describe, describe-producers, abort, find-hanging, forceTerminateTransaction.

The questions are those of `moldau transactions` (moldau/tools/commands/transactions); here they go over the
connections of --command-config.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.subcommands import Subcommands, whole
from moldau.tools.kafka.lines.table import print_table
from moldau.tools.kafka.problems import Ended, ToolError
from moldau.tools.kafka.queries.reaching import reach
from moldau.tools.kafka.queries.refusals import error_text
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout
    from moldau.client.admin.transactions import Description, Producer

MS_A_MINUTE = 60_000
NONE = "None"


def main(words: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    try:
        given = _parser().parse_args(words)
    except Ended as ended:
        asked = {"-v", "--version"} & {*words}
        raise Ended(str(ended), 0 if asked else 1, on_stdout=True) from None  # as Kafka's
    settings = read_properties(given.command_config) if given.command_config else {}
    check: Callable[[Any], None] = CHECKS.get(given.command, lambda _: None)
    check(given)
    from moldau.client.admin.layout import layout

    with reach(given.bootstrap_server, settings) as cluster:
        COMMANDS[given.command](layout(cluster), given)
    return 0


def _parser() -> Subcommands:
    parser = Subcommands(
        prog="kafka-transactions.sh",
        description="Shows transactions and their producers; finds hanging transactions, and aborts them.",
    )
    parser.add_version()
    parser.add_argument("--command-config", metavar="FILE", help="a file of client settings")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="a broker")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    one = commands.add_parser("list", help="list transactions")
    one.add_argument("--duration-filter", type=whole(64), help="only those older than so many milliseconds")
    one.add_argument("--transactional-id-pattern", help="only ids that match this regular expression (RE2)")
    one = commands.add_parser("describe", help="show what the coordinator knows of a transactional id")
    one.add_argument("--transactional-id", required=True, help="the id")
    one = commands.add_parser("describe-producers", help="show the producers of a partition")
    _add_place(one, required=True)
    one.add_argument("--broker-id", type=whole(32), help="ask this replica instead of the leader")
    one = commands.add_parser("abort", help="abort a hanging transaction in one partition")
    _add_place(one, required=True)
    one.add_argument("--start-offset", type=whole(64), help="where the transaction begins")
    one.add_argument("--producer-id", type=whole(64), help="instead: its producer")
    one.add_argument("--producer-epoch", type=whole(16), help="the producer's epoch")
    one.add_argument("--coordinator-epoch", type=whole(32), help="the coordinator's epoch")
    one = commands.add_parser("find-hanging", help="find transactions that no coordinator will end")
    one.add_argument("--broker-id", type=whole(32), help="only replicas of this broker")
    one.add_argument(
        "--max-transaction-timeout", type=whole(32), default=15, help="the longest timeout, in minutes"
    )
    _add_place(one, required=False)
    one = commands.add_parser(
        "forceTerminateTransaction",
        help="abort the transaction of a transactional id, and fence its producer",
    )
    one.add_argument(
        "--transactionalId", "--transactional-id", dest="transactional_id", required=True, help="the id"
    )
    return parser


def _add_place(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--topic", required=required, help="the topic")
    parser.add_argument("--partition", type=whole(32), required=required, help="the partition")


def _check_abort(given: Any) -> None:
    producer = (given.producer_id, given.producer_epoch, given.coordinator_epoch)
    if given.start_offset is None and None in producer:
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or "
            "above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )


def _check_find(given: Any) -> None:
    if given.topic is None and given.broker_id is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the "
            "scope of the search"
        )
    if given.partition is not None and given.topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")


def _list(layout: Layout, given: Any) -> None:
    from moldau.client.admin.transactions import list_transactions

    duration_ms = -1 if given.duration_filter is None else given.duration_filter
    found = list_transactions(layout, duration_ms=duration_ms, pattern=given.transactional_id_pattern or "")
    rows = [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found]
    print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def _describe(layout: Layout, given: Any) -> None:
    from moldau.client.admin.transactions import describe_transactions
    from moldau.common.protocol.errors import ErrorCode

    wanted = given.transactional_id
    described, refused = describe_transactions(layout.cluster, [wanted])
    if refused:
        reason = (
            f"DescribeTransactions request for transactionalId `{wanted}` failed because the ID "
            "could not be found"
            if refused[wanted] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            else error_text(refused[wanted]).rstrip(".")
        )
        raise ToolError(
            f"Failed to describe transaction state of transactional-id `{wanted}`: {reason}. "
            "Enable debug logging for additional detail."
        )
    headings = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    print_table(headings, [_described(each) for each in described])


def _described(each: Description) -> tuple[object, ...]:
    start_ms = NONE if each.start_ms is None else each.start_ms
    duration_ms = NONE if each.start_ms is None else _now_ms() - each.start_ms
    places = ",".join(f"{topic}-{index}" for topic, index in each.partitions)
    return (
        each.coordinator,
        each.transactional_id,
        each.producer_id,
        each.producer_epoch,
        each.state,
        each.timeout_ms,
        start_ms,
        duration_ms,
        places,
    )


def _describe_producers(layout: Layout, given: Any) -> None:
    from moldau.client.admin.transactions import describe_producers
    from moldau.client.errors import ClientError

    place = (given.topic, given.partition)
    try:
        found = describe_producers(layout, [place], given.broker_id)[place]
    except (CommandError, ClientError) as problem:
        where = "leader" if given.broker_id is None else f"broker {given.broker_id}"
        raise ToolError(
            f"Failed to describe producers for partition {given.topic}-{given.partition} on "
            f"{where}: {problem}"
        ) from None
    headings = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    print_table(headings, [_producer(each) for each in sorted(found, key=lambda one: one.producer_id)])


def _producer(each: Producer) -> tuple[object, ...]:
    return (
        each.producer_id,
        each.producer_epoch,
        each.coordinator_epoch,
        each.last_sequence,
        each.last_timestamp_ms,
        NONE if each.start_offset is None else each.start_offset,
    )


def _abort(layout: Layout, given: Any) -> None:
    from moldau.client.admin.transactions import describe_producers, write_abort_marker

    place = (given.topic, given.partition)
    if given.start_offset is None:
        chosen = (given.producer_id, given.producer_epoch, given.coordinator_epoch)
    else:
        open_here = describe_producers(layout, [place])[place]
        found = [each for each in open_here if each.start_offset == given.start_offset]
        if not found:
            raise ToolError(
                f"Could not find any open transactions starting at offset {given.start_offset} on partition "
                f"{given.topic}-{given.partition}"
            )
        chosen = (found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch)
    write_abort_marker(layout, place, *chosen)


def _find_hanging(layout: Layout, given: Any) -> None:
    from moldau.tools.commands.transactions.hanging import choose_places, find_hanging

    if given.broker_id is not None and given.broker_id not in layout.brokers:
        raise ToolError(f"Failed to describe brokers: there is no broker {given.broker_id}")
    places = choose_places(layout, given.topic, given.partition, given.broker_id)
    now_ms = _now_ms()
    longest_ms = given.max_transaction_timeout * MS_A_MINUTE
    found = find_hanging(layout, places, longest_ms, now_ms, given.broker_id)
    headings = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    rows = [
        (
            *each.place,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.producer.start_offset,
            each.producer.last_timestamp_ms,
            each.minutes(now_ms),
        )
        for each in found
    ]
    print_table(headings, rows)


def _terminate(layout: Layout, given: Any) -> None:
    from moldau.tools.commands.transactions.description import end_by_fencing

    end_by_fencing(layout.cluster, given.transactional_id, MS_A_MINUTE)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


CHECKS = {"abort": _check_abort, "find-hanging": _check_find}
COMMANDS = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _terminate,
}
