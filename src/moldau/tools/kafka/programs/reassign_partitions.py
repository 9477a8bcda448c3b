"""kafka-reassign-partitions: --generate, --execute, --verify, --cancel, --list.

Requests, throttles and the choice of replicas are those of `moldau topics reassign`
(client/admin/reassignments.py, tools/commands/topics/reassign_plan.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.client.admin.log_dirs import replica_paths
from moldau.client.admin.problem import KafkaProblem
from moldau.tools.kafka.formats.reassign_plans import (
    Plan,
    check_to_execute,
    named,
    parse_brokers,
    parse_plan,
    parse_topics,
    plan_json,
)
from moldau.tools.kafka.lines.options import Given, Long, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries.reaching import COMMAND_CONFIG, ZOOKEEPER, client_settings, reach, servers
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout
    from moldau.tools.kafka.formats.reassign_plans import Place

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_JSON = "reassignment-json-file"
_RATE, _FOLDER_RATE = "throttle", "replica-alter-log-dirs-throttle"
_NEEDED = {
    "generate": ("broker-list", "topics-to-move-json-file"),
    "execute": (_JSON,),
    "verify": (_JSON,),
    "cancel": (_JSON,),
    "list": (),
}
_ALLOWED = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "disallow-replication-factor-change", _RATE, _FOLDER_RATE, "timeout"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this "
    "and create a new partition assignment in addition to the existing one. The --additional flag can also "
    "be used to change the throttle by resubmitting the current reassignment."
)
_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle "
    "is removed."
)

PARSER = Parser(
    "kafka-reassign-partitions",
    "Gives partitions other replicas.",
    [
        Option("bootstrap-server", "Server(s) to use for bootstrapping", "A broker."),
        Option("bootstrap-controller", "bootstrap controller", "A controller: with Moldau a broker, too."),
        ZOOKEEPER,
        COMMAND_CONFIG,
        flag("generate", "Propose a plan; move nothing."),
        flag("execute", "Carry out a plan."),
        flag("verify", "Show how far a plan is; remove throttles once nothing is under way."),
        flag("cancel", "Cancel what is under way of a plan."),
        flag("list", "List what is under way."),
        Option(_JSON, "manual assignment json file path", "The plan."),
        Option(
            "topics-to-move-json-file", "topics to reassign json file path", '{"topics": [{"topic": "t"}]}'
        ),
        Option("broker-list", "brokerlist", "Where the topics are to lie, as 1,2,3."),
        flag("disable-rack-aware", "Take no account of racks."),
        Option(_RATE, "throttle", "Bytes a second between brokers.", kind=Long, default=-1),
        Option(
            _FOLDER_RATE,
            "replicaAlterLogDirsThrottle",
            "Bytes a second between folders.",
            kind=Long,
            default=-1,
        ),
        Option(
            "timeout", "timeout", "Milliseconds to wait for moves between folders.", kind=Long, default=10_000
        ),
        flag("additional", "Although others are under way."),
        flag(
            "disallow-replication-factor-change", "Refuse a plan with more or fewer replicas than there are."
        ),
        flag("preserve-throttles", "Leave throttles as they are."),
    ],
)


def main(words: Sequence[str]) -> int:
    """Run one action. Returns the exit code."""
    given = PARSER.parse(words)
    action = _action(given)
    for name in (_RATE, _FOLDER_RATE, "timeout"):
        _number(given, name)
    bootstrap = given.text("bootstrap-controller") or servers(given)
    plan = _plan(given)
    if action == "execute":
        check_to_execute(plan)
    topics = parse_topics(_read(given, "topics-to-move-json-file")) if action == "generate" else []
    from moldau.client.admin.layout import layout as read_layout

    with reach(bootstrap, client_settings(given)) as cluster:
        layout = read_layout(cluster)
        try:
            if action == "generate":
                _generate(layout, topics, given)
            elif action == "execute":
                _execute(layout, plan, given)
            elif action == "verify":
                _verify(layout, plan, given.flag("preserve-throttles"))
            elif action == "cancel":
                _cancel(layout, plan, given.flag("preserve-throttles"))
            else:
                _list(layout)
        except (CommandError, KafkaProblem) as problem:
            raise ToolError(f"Error: {problem}", on_stdout=True) from None
    return 0


def _action(given: Given) -> str:
    """The one action, with what it needs and nothing that it does not take. CommandLineError."""
    named_actions = [each for each in ACTIONS if given.flag(each)]
    if len(named_actions) != 1:
        raise CommandLineError(
            f"Command must include exactly one action: {', '.join(f'--{each}' for each in ACTIONS)}",
            PARSER.line([*(word for word in given.typed if word.lstrip("-") not in ACTIONS), "--list"]),
        )
    action = named_actions[0]
    connections = ("bootstrap-server", "bootstrap-controller", "zookeeper")
    if given.flag("bootstrap-server") and given.flag("bootstrap-controller"):
        raise CommandLineError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not any(given.flag(each) for each in connections):
        raise CommandLineError(
            "Please specify either --bootstrap-server or --bootstrap-controller",
            PARSER.line(["--bootstrap-server", "localhost:9092", *given.typed]),
        )
    PARSER.require(given, *_NEEDED[action])
    allowed = {*_NEEDED[action], *_ALLOWED[action], *connections, "command-config", action}
    for name in given.values:
        if name not in allowed:
            raise CommandLineError(
                f'Option "[{name}]" can\'t be used with action "[{action}]"', f"Leave out --{name}."
            )
    return action


def _number(given: Given, name: str) -> int:
    try:
        return given.number(name) or 0
    except CommandLineError as problem:
        raise ToolError(f"Error: {problem}", on_stdout=True) from None


def _plan(given: Given) -> Plan:
    return parse_plan(_read(given, _JSON)) if given.flag(_JSON) else Plan({}, {})


def _read(given: Given, option: str) -> str:
    path = given.text(option) or ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"Error: Unable to read file {path}", on_stdout=True) from None


def _generate(layout: Layout, topics: Sequence[str], given: Given) -> None:
    from moldau.tools.commands.topics.reassign_plan import spread

    wanted = parse_brokers(given.text("broker-list") or "")
    existing = set(layout.topics)
    for each in topics:
        if each not in existing:
            raise CommandError(
                f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic {each} not found."
            )
    racks = {
        broker: rack
        for broker, rack in {each.broker_id: each.rack for each in layout.brokers.values()}.items()
        if broker in wanted
    }
    unknown = [each for each in wanted if each not in racks]
    if unknown:
        raise CommandError(f"Unknown broker id {unknown[0]}")
    if given.flag("disable-rack-aware"):
        racks = dict.fromkeys(racks)
    elif None in racks.values() and set(racks.values()) != {None}:
        raise CommandError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    chosen = [place for place in layout.partitions if place[0] in topics]
    replicas = layout.replicas
    current = {place: replicas[place] for place in chosen}
    proposed = current | spread(replicas, chosen, racks)
    print(f"Current partition replica assignment\n{plan_json(current, _directories(layout, chosen))}\n")
    print(f"Proposed partition reassignment configuration\n{plan_json(proposed)}")


def _directories(layout: Layout, places: Sequence[Place]) -> dict[tuple[Place, int], str]:
    """Where the replicas of partitions lie now; those of brokers that are away are left out."""
    wanted = set(places)
    return {
        key: path
        for key, path, replica in replica_paths(layout.cluster, layout.brokers)
        if key[0] in wanted and not replica.is_future
    }


def _execute(layout: Layout, plan: Plan, given: Given) -> None:
    from moldau.client.admin.log_dirs import prefer_directories
    from moldau.client.admin.reassignments import find_moves, submit_moves

    if not given.flag("additional") and find_moves(layout.cluster):
        raise ToolError(_EXISTING, on_stdout=True)
    for replicas in plan.targets.values():
        for broker in replicas:
            if broker not in layout.brokers:
                raise CommandError(f"Unknown broker id {broker}")
    for place in plan.targets:
        if place not in layout.partitions:
            raise CommandError(
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Unable to find partition: "
                f"{named(place)}"
            )
    current = {place: layout.partitions[place].replicas for place in plan.targets}
    before = plan_json(current, _directories(layout, list(current)))
    print(f"Current partition replica assignment\n\n{before}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    _throttle(layout, plan, given)
    prefer_directories(layout.cluster, plan.directories)
    same_factor = given.flag("disallow-replication-factor-change")
    refused = submit_moves(layout.cluster, plan.targets, allow_factor_change=not same_factor)
    if refused:
        reasons = "\n".join(f"{named(place)}: {why}" for place, why in sorted(refused.items()))
        raise ToolError(f"Error reassigning partition(s):\n{reasons}", on_stdout=True)
    print(f"Successfully started partition reassignment{_s(plan.targets)} for {_names(plan.targets)}")
    for (place, broker), path in sorted(plan.directories.items()):
        print(
            f"Successfully started moving log directory to {path} for replica {named(place)} "
            f"with broker {broker} "
        )


def _throttle(layout: Layout, plan: Plan, given: Given) -> None:
    from moldau.client.admin.reassignments import find_moves, throttle, throttle_directories

    rate, folder_rate = given.number(_RATE) or -1, given.number(_FOLDER_RATE) or -1
    if rate < 0 and folder_rate < 0:
        return
    print(_WARNING)
    if rate >= 0:
        moves = {
            place: (copies.replicas, [each for each in to if each not in copies.replicas])
            for place, to in plan.targets.items()
            if (copies := layout.partitions[place])
        }
        for place, move in find_moves(layout.cluster).items():
            present = [each for each in move.replicas if each not in move.adding]
            moves.setdefault(place, (tuple(present), list(move.adding)))
        throttle(layout, rate, moves)
        print(f"The inter-broker throttle limit was set to {rate} B/s")
    if folder_rate >= 0:
        throttle_directories(layout, folder_rate, [broker for _, broker in plan.directories])
        print(f"The replica-alter-dir throttle limit was set to {folder_rate} B/s")


def _verify(layout: Layout, plan: Plan, preserve: bool) -> None:
    from moldau.client.admin.reassignments import find_moves

    moves = find_moves(layout.cluster)
    print("Status of partition reassignment:")
    for place, target in sorted(plan.targets.items()):
        copies = layout.partitions.get(place)
        present = list(copies.replicas) if copies else []
        if place in moves:
            print(f"Reassignment of partition {named(place)} is still in progress.")
        elif present == target:
            print(f"Reassignment of partition {named(place)} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {named(place)}, but replica set is "
                f"{_ids(present)} rather than {_ids(target)}."
            )
    moving = _print_folders(layout, plan)
    print()
    if not moves and not moving and not preserve:
        _clear(layout, plan)


def _print_folders(layout: Layout, plan: Plan) -> bool:
    """Say how far moves between folders are; whether any is under way."""
    now, future = _folders(layout, plan)
    moving = False
    for (place, broker), path in sorted(plan.directories.items(), key=lambda each: (each[0][1], each[0][0])):
        replica = f"{named(place)}-{broker}"
        key = (place, broker)
        if key in future:
            moving = True
            if future[key] == path:
                print(f"Reassignment of replica {replica} is still in progress.")
            else:
                print(
                    f"Partition {named(place)} on broker {broker} is being moved to log dir "
                    f"{future[key]} instead of "
                    f"{path}."
                )
        elif key not in now:
            print(
                f"Partition {named(place)} is not found in any live log dir on broker {broker}. "
                "There is likely an "
                "offline log directory on the broker."
            )
        elif now[key] == path:
            print(f"Reassignment of replica {replica} completed successfully.")
        else:
            print(
                f"Partition {named(place)} on broker {broker} is not being moved from log dir "
                f"{now[key]} to {path}."
            )
    return moving


def _folders(layout: Layout, plan: Plan) -> tuple[dict[tuple[Place, int], str], dict[tuple[Place, int], str]]:
    """Where the plan's replicas lie, and where those that are moving will."""
    now: dict[tuple[Place, int], str] = {}
    future: dict[tuple[Place, int], str] = {}
    concerned = sorted({broker for _, broker in plan.directories} & set(layout.brokers))
    for key, path, replica in replica_paths(layout.cluster, concerned):
        (future if replica.is_future else now)[key] = path
    return now, future


def _cancel(layout: Layout, plan: Plan, preserve: bool) -> None:
    from moldau.client.admin.log_dirs import prefer_directories
    from moldau.client.admin.reassignments import find_moves, submit_moves

    active = [place for place in sorted(find_moves(layout.cluster)) if place in plan.targets]
    if active:
        refused = submit_moves(layout.cluster, dict.fromkeys(active))
        if refused:
            reasons = "\n".join(f"{named(place)}: {why}" for place, why in sorted(refused.items()))
            raise ToolError(
                f"Error cancelling partition reassignment{_s(refused)} for:\n{reasons}", on_stdout=True
            )
        print(f"Successfully cancelled partition reassignment{_s(active)} for: {_names(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    now, future = _folders(layout, plan)
    back = {key: now[key] for key in plan.directories if key in future and key in now}
    if back:
        prefer_directories(layout.cluster, back)
        for (place, broker), path in sorted(back.items()):
            print(
                f"Successfully started moving log directory to {path} for replica {named(place)} "
                f"with broker {broker} "
            )
    else:
        sys.stdout.write("None of the specified partition moves are active.")  # no line end, as Kafka's
        if preserve:
            print()
    if not preserve:
        _clear(layout, plan)


def _clear(layout: Layout, plan: Plan) -> None:
    from moldau.client.admin.reassignments import unthrottle, unthrottle_directories

    brokers = sorted(layout.brokers)
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(brokers)}")
    topics = sorted({name for name, _ in plan.targets})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    existing = set(layout.topics)
    unthrottle(layout, [name for name in topics if name in existing])
    unthrottle_directories(layout)


def _list(layout: Layout) -> None:
    from moldau.client.admin.reassignments import find_moves

    moves = find_moves(layout.cluster)
    if not moves:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place, move in sorted(moves.items()):
        adding = f" adding: {_ids(move.adding)}." if move.adding else ""
        removing = f" removing: {_ids(move.removing)}." if move.removing else ""
        print(f"{named(place)}: replicas: {_ids(move.replicas)}.{adding}{removing}")


def _names(places: Iterable[Place]) -> str:
    return ",".join(named(each) for each in sorted(places))


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(str(each) for each in brokers)


def _s(items: Sized) -> str:
    return "" if len(items) == 1 else "s"
