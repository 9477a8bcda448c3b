"""kafka-acls: adds, removes and lists ACLs. Options, lines and errors are those of Kafka's tool.

    --producer      WRITE, DESCRIBE, CREATE on the topics; WRITE, DESCRIBE on the transactional ids;
                    with --idempotent, IDEMPOTENT_WRITE on the cluster
    --consumer      READ, DESCRIBE on the topics; READ on the groups

Kafka prints resources and entries in the order of a hash; here they are sorted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.client.admin.acls import create_acls, delete_acls, find_acls
from moldau.client.admin.problem import KafkaProblem
from moldau.client.cluster import Cluster
from moldau.common.core.principals import check_principal
from moldau.common.protocol.acls import EVERYTHING, Acl, AclFilter
from moldau.common.protocol.operations import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries.reaching import client_settings, reach
from moldau.tools.kafka.queries.refusals import exception_name, told

PARSER = Parser(
    "kafka-acls",
    "This tool helps to manage acls on kafka.",
    [
        flag("add", "Add ACLs."),
        Option("allow-host", "allow-host", "Hosts of --allow-principal; default '*', every host."),
        Option("allow-principal", "allow-principal", "Who is allowed, as type:name; User:'*' is everyone."),
        Option("bootstrap-controller", "controller to connect to", "As --bootstrap-server."),
        Option("bootstrap-server", "server to connect to", "A broker, as HOST:PORT."),
        flag("cluster", "ACLs of the cluster."),
        Option(
            "command-config",
            "[command-config]",
            "A file of client settings (TLS, SASL).",
            may_lack_value=True,
        ),
        flag("consumer", "What a consumer needs: READ, DESCRIBE on topics and READ on groups."),
        Option("delegation-token", "delegation-token", "ACLs of this delegation token; '*' is all."),
        Option("deny-host", "deny-host", "Hosts of --deny-principal; default '*', every host."),
        Option("deny-principal", "deny-principal", "Who is denied, as type:name; denials outweigh."),
        flag("force", "Do not ask before ACLs are removed."),
        Option("group", "group", "ACLs of this group; '*' is all."),
        flag("idempotent", "With --producer: it may be idempotent without a transactional id."),
        flag("list", "List ACLs, of all resources or of those that are named."),
        Option("operation", "String", "An operation, such as Read or AlterConfigs.", default="All"),
        Option("principal", "[principal]", "With --list: only ACLs of this principal.", may_lack_value=True),
        flag("producer", "What a producer needs: WRITE, DESCRIBE and CREATE on topics."),
        flag("remove", "Remove ACLs."),
        Option(
            "resource-pattern-type",
            "ANY|MATCH|LITERAL|PREFIXED",
            "What names are. To list or remove: ANY type with this name, or MATCH: all that apply to it.",
            default="LITERAL",
        ),
        Option("topic", "topic", "ACLs of this topic; '*' is all."),
        Option("transactional-id", "transactional-id", "ACLs of this transactional id; '*' is all."),
        Option("user-principal", "user-principal", "ACLs of this user as a resource (delegation tokens)."),
    ],
)

_RESOURCES = (
    ("topic", ResourceType.TOPIC),
    ("group", ResourceType.GROUP),
    ("transactional-id", ResourceType.TRANSACTIONAL_ID),
    ("delegation-token", ResourceType.DELEGATION_TOKEN),
    ("user-principal", ResourceType.USER),
)
_BY_NAME = {
    "".join(word.capitalize() for word in each.name.split("_")): each
    for each in Operation
    if each >= Operation.ALL
}
_BY_LETTERS = {name.lower(): name for name in _BY_NAME}


class Pattern(NamedTuple):
    """A resource, or a filter of resources."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )


class AccessEntry(NamedTuple):
    """Who may (not) do what to a resource."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


CLUSTER = Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
Entries = Mapping[Pattern, Sequence[AccessEntry]]


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    _check(given)
    servers = given.text("bootstrap-server") or given.text("bootstrap-controller") or ""
    _check_removal(given)
    try:
        pattern_type = _pattern_type(given)
        plan = None if given.flag("list") else _planned(given, pattern_type)
        principals = _principals(given, "principal")
        settings = client_settings(given) if given.texts("command-config") else {}
        with reach(servers, settings) as cluster:
            if plan is None:
                _list(cluster, _named(given, pattern_type), principals)
            elif given.flag("add"):
                _add(cluster, plan)
            else:
                _remove(cluster, plan, confirmed=given.flag("force"))
    except ValueError as problem:
        raise _failed(str(problem)) from None
    except KafkaProblem as refused:
        raise _failed(f"{exception_name(refused.error_code)}: {told(refused)}") from None
    return 0


def _failed(why: str) -> ToolError:
    return ToolError(f"Error while executing ACL command: {why}", on_stdout=True)


def _check(given: Given) -> None:
    """Kafka's checks, in its order."""
    server, controller = given.flag("bootstrap-server"), given.flag("bootstrap-controller")
    if server and controller:
        raise CommandLineError(
            "Only one of --bootstrap-server or --bootstrap-controller must be specified",
            "Leave out --bootstrap-controller.",
        )
    if not (server or controller):
        line = PARSER.line([*given.typed, "--bootstrap-server", "localhost:9092"])
        raise CommandLineError("One of --bootstrap-server or --bootstrap-controller must be specified", line)
    if sum(given.flag(each) for each in ("add", "remove", "list")) != 1:
        raise CommandLineError(
            "Command must include exactly one action: --list, --add, --remove. ",
            PARSER.line([*given.typed, "--list"]),
        )
    hosts = ("allow-host", "allow-principal", "deny-host", "deny-principal")
    PARSER.exclude(given, "list", "producer", "consumer", *hosts)
    for role in ("producer", "consumer"):
        PARSER.exclude(given, role, "operation", "deny-principal", "deny-host")
    if given.flag("principal") and not given.flag("list"):
        raise CommandLineError(
            "The --principal option is only available if --list is set",
            "To add or remove, name it with --allow-principal or --deny-principal.",
        )
    if given.flag("producer") and not given.flag("topic"):
        raise CommandLineError(
            "With --producer you must specify a --topic", PARSER.line([*given.typed, "--topic", "TOPIC"])
        )
    if given.flag("idempotent") and not given.flag("producer"):
        raise CommandLineError(
            "The --idempotent option is only available if --producer is set",
            PARSER.line([*given.typed, "--producer"]),
        )
    others = not given.flag("producer") and (given.flag("cluster") or given.flag("transactional-id"))
    if given.flag("consumer") and (not given.flag("topic") or not given.flag("group") or others):
        raise CommandLineError(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def _check_removal(given: Given) -> None:
    """CommandLineError for a removal that would take more than what is named.

    Kafka's tool removes all ACLs of the resource when --operation, --producer or a host is given without a
    principal, and takes an empty name with MATCH for what holds for all names.
    """
    if not given.flag("remove"):
        return
    whose = given.flag("allow-principal") or given.flag("deny-principal")
    narrowing = ("operation", "producer", "consumer", "idempotent", "allow-host", "deny-host")
    without = [each for each in narrowing if given.flag(each) and not whose]
    if without:
        raise CommandLineError(
            f"--remove with --{without[0]} needs a principal: without one all ACLs of the resource would be "
            "removed",
            PARSER.line([*given.typed, "--allow-principal", "User:NAME"]),
        )
    for option, _ in _RESOURCES:
        if any(not name.strip() for name in given.texts(option)):
            raise CommandLineError(f"The name of --{option} is empty", "Nothing was removed.")


def _pattern_type(given: Given) -> PatternType:
    text = given.text("resource-pattern-type") or ""
    found = PatternType.__members__.get(text.upper())
    if found is None:
        raise ValueError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    if found is PatternType.UNKNOWN:
        raise ValueError(f"Unknown resource-pattern-type: {text}")
    return found


# What is to be added or removed


def _planned(given: Given, pattern_type: PatternType) -> Entries:
    adding = given.flag("add")
    if adding and pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise CommandLineError(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls.",
            "It may be literal or prefixed.",
        )
    named = _named(given, pattern_type)
    if not named:
        raise CommandLineError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    plan: dict[Pattern, dict[AccessEntry, None]] = {}

    def put(patterns: Iterable[Pattern], operations: Sequence[Operation]) -> None:
        for pattern in patterns:
            plan.setdefault(pattern, {}).update(dict.fromkeys(_entries(given, operations)))

    of = {kind: [each for each in named if each.resource_type is kind] for kind in ResourceType}
    if not (given.flag("producer") or given.flag("consumer")):
        put(named, _operations(given, named))
    if given.flag("producer"):
        put(of[ResourceType.TOPIC], [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE])
        put(of[ResourceType.TRANSACTIONAL_ID], [Operation.WRITE, Operation.DESCRIBE])
        if given.flag("idempotent"):
            put([CLUSTER], [Operation.IDEMPOTENT_WRITE])
    if given.flag("consumer"):
        put(of[ResourceType.TOPIC], [Operation.READ, Operation.DESCRIBE])
        put(of[ResourceType.GROUP], [Operation.READ])
    if adding and not all(plan.values()):
        raise CommandLineError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.",
            PARSER.line([*given.typed, "--allow-principal", "User:NAME"]),
        )
    return {pattern: sorted(entries) for pattern, entries in sorted(plan.items())}


def _named(given: Given, pattern_type: PatternType) -> list[Pattern]:
    """The resources of the command line."""
    found = dict.fromkeys(
        Pattern(kind, name.strip(), pattern_type)
        for option, kind in _RESOURCES
        for name in given.texts(option)
    )
    if pattern_type is PatternType.LITERAL and (given.flag("cluster") or given.flag("idempotent")):
        found[CLUSTER] = None
    return list(found)


def _operations(given: Given, named: Sequence[Pattern]) -> list[Operation]:
    asked = [_spelt(each) for each in given.texts("operation") or ["All"]]
    if not (given.flag("allow-principal") or given.flag("deny-principal")):
        return []  # Kafka looks at operations only where somebody has them
    for pattern in named:
        valid = (Operation.ALL, *OPERATIONS_OF[pattern.resource_type])
        if any(_BY_NAME.get(each) not in valid for each in asked):
            names = ", ".join(each.name for each in valid)
            raise CommandLineError(
                f"ResourceType {pattern.resource_type.name} only supports operations [{names}]",
                "They are typed as "
                + ", ".join(name for name, operation in _BY_NAME.items() if operation in valid),
            )
    return [_BY_NAME[each] for each in dict.fromkeys(asked)]


def _spelt(name: str) -> str:
    """The operation's name as it is listed: Kafka takes any case, as in `--operation WRITE`."""
    return _BY_LETTERS.get(name.strip().replace("_", "").lower(), name)


def _entries(given: Given, operations: Sequence[Operation]) -> Iterable[AccessEntry]:
    for way, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        hosts = [host.strip() for host in given.texts(f"{way}-host")] or [WILDCARD]
        for principal in _principals(given, f"{way}-principal"):
            for operation in operations:
                for host in hosts:
                    yield AccessEntry(principal, host, operation, permission)


def _principals(given: Given, option: str) -> list[str]:
    return [check_principal(each.strip()) for each in dict.fromkeys(given.texts(option))]


# The three actions


def _add(cluster: Cluster, plan: Entries) -> None:
    for pattern, entries in plan.items():
        there = find_acls(cluster, _filter(pattern))
        fresh = []
        for entry in entries:
            if _acl(pattern, entry) in there:
                print(f"Acl (pattern={pattern}, entry={entry}) already exists.")
            else:
                fresh.append(entry)
        if fresh:
            print(f"Adding ACLs for resource `{pattern}`: \n {_lines(fresh)}\n")
            create_acls(cluster, [_acl(pattern, entry) for entry in fresh])


def _remove(cluster: Cluster, plan: Entries, *, confirmed: bool) -> None:
    for pattern, entries in plan.items():
        if not entries:
            question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
            filters = [_filter(pattern)]
        else:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)}\n from resource filter "
                f"`{pattern}`? (y/n)"
            )
            filters = [AclFilter(*_acl(pattern, entry)) for entry in entries]
        if confirmed or _is_sure(question):
            delete_acls(cluster, filters)


def _is_sure(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _list(cluster: Cluster, named: Sequence[Pattern], principals: Sequence[str]) -> None:
    filters = [_filter(each) for each in named] or [EVERYTHING]
    held: dict[Pattern, dict[AccessEntry, None]] = {}
    for wanted in filters:
        for acl in find_acls(cluster, wanted):
            pattern = Pattern(
                ResourceType(acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)
            )
            entry = AccessEntry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission))
            held.setdefault(pattern, {})[entry] = None
    if not principals:
        _print_all(held)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print_all(
            {
                pattern: [entry for entry in entries if entry.principal == principal]
                for pattern, entries in held.items()
            }
        )


def _print_all(held: Mapping[Pattern, Iterable[AccessEntry]]) -> None:
    for pattern, entries in sorted(held.items()):
        shown = sorted(entries)
        if shown:
            print(f"Current ACLs for resource `{pattern}`:\n{_lines(shown)}\n")


def _lines(entries: Iterable[AccessEntry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def _acl(pattern: Pattern, entry: AccessEntry) -> Acl:
    principal, host, operation, permission = entry
    return Acl(*pattern, principal, host, operation, permission)


def _filter(pattern: Pattern) -> AclFilter:
    return AclFilter(*pattern, None, None, Operation.ANY, Permission.ANY)
