"""`moldau acls`: list, add, remove, and explain which rule decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import headings, note, print_json, print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moldau.common.protocol.acls import Acl
    from moldau.common.protocol.operations import Operation, PatternType, ResourceType
    from moldau.tools.shared.connection import Connection

app = typer.Typer(
    no_args_is_help=True,
    help="Show and change who may do what: the cluster's ACLs.",
    epilog="Try: moldau acls add --principal alice --operation read --topic orders   "
    "and: moldau acls add --principal alice --consumer --topic orders --group app   "
    "and: moldau acls explain --principal alice --operation write --topic orders",
)


Principal = Annotated[
    str | None,
    typer.Option("--principal", "-p", metavar="TYPE:NAME", help="Whom it is about: alice is User:alice."),
]
Principals = Annotated[
    list[str] | None,
    typer.Option("--principal", "-p", metavar="TYPE:NAME", help="Whom it is about: alice is User:alice."),
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", "-o", help="read, write, describe, alter-configs, all ... May be repeated."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="A topic; '*' is all.", autocompletion=completion.topics),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", help="A consumer group; '*' is all.", autocompletion=completion.groups),
]
TransactionalIds = Annotated[
    list[str] | None, typer.Option("--transactional-id", help="A transactional id; '*' is all.")
]
Tokens = Annotated[
    list[str] | None, typer.Option("--delegation-token", help="A delegation token's id; '*' is all.")
]
Users = Annotated[
    list[str] | None, typer.Option("--user", help="A principal as a resource, for delegation tokens.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Prefix = Annotated[bool, typer.Option("--prefix", help="Names are prefixes: all that begin with them.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="ADDRESS", help="From where: an address or a network (10.0.0.0/8)."),
]
Deny = Annotated[bool, typer.Option("--deny", help="Deny it; a denial outweighs all that allow.")]
Producer = Annotated[
    bool, typer.Option("--producer", help="What a producer needs, on topics and transactional ids.")
]
Consumer = Annotated[bool, typer.Option("--consumer", help="What a consumer needs, on topics and groups.")]


class Resources(NamedTuple):
    """What it is about."""

    topics: Topics = None
    groups: Groups = None
    transactional_ids: TransactionalIds = None
    tokens: Tokens = None
    users: Users = None
    cluster: Cluster = False

    def named(self) -> list[tuple[ResourceType, str]]:
        """The resources, by kind and name."""
        from moldau.common.protocol.operations import CLUSTER_NAME, ResourceType

        return [
            *((ResourceType.TOPIC, name) for name in self.topics or ()),
            *((ResourceType.GROUP, name) for name in self.groups or ()),
            *((ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids or ()),
            *((ResourceType.DELEGATION_TOKEN, name) for name in self.tokens or ()),
            *((ResourceType.USER, _principal(name)) for name in self.users or ()),
            *([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else ()),
        ]


class Rule(NamedTuple):
    """What is allowed, or denied, and from where."""

    producer: Producer = False
    consumer: Consumer = False
    prefix: Prefix = False
    hosts: Hosts = None
    deny: Deny = False


@app.command("list")
@connected
def list_(
    connect: Connect,
    principal: Principal = None,
    resources: Resources = Resources(),
    applying: Annotated[
        bool, typer.Option("--applying", help="Also ACLs of prefixes and of '*' that apply to the names.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List ACLs: all, or those of a principal or of resources."""
    from moldau.client.admin.acls import find_acls
    from moldau.common.protocol.acls import EVERYTHING
    from moldau.common.protocol.operations import PatternType

    pattern = PatternType.MATCH if applying else PatternType.ANY
    named = resources.named()
    filters = [
        EVERYTHING._replace(resource_type=kind, resource_name=name, pattern_type=pattern)
        for kind, name in named
    ] or [EVERYTHING]
    connection = connect()
    who = None if principal is None else _principal(principal)
    found: dict[Acl, None] = {}
    for each in filters:
        found.update(dict.fromkeys(_told(find_acls, connection, each._replace(principal=who))))
    rows = [_row(acl) for acl in sorted(found)]
    columns = headings(
        "permission principal operation resource_type name pattern host", resource_type="RESOURCE"
    )
    print_rows(as_json, rows, columns, empty="no ACLs")


@app.command()
@connected
def add(
    connect: Connect,
    principals: Principals = None,
    operations: Operations = None,
    resources: Resources = Resources(),
    rule: Rule = Rule(),
    as_json: Json = False,
) -> None:
    """Allow (or --deny) principals operations on resources."""
    from moldau.client.admin.acls import create_acls

    named = resources.named()
    acls = _acls(principals, operations, named, rule)
    _told(create_acls, connect(), acls)
    _show("added", acls, as_json)


@app.command()
@connected
def remove(
    connect: Connect,
    principals: Principals = None,
    operations: Operations = None,
    resources: Resources = Resources(),
    rule: Rule = Rule(),
    everything: Annotated[
        bool,
        typer.Option("--all", help="All ACLs of these principals and resources, whatever they say."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove ACLs: what `add` with the same options has added; or, with --all, all of principals and
    resources.
    """
    from moldau.client.admin.acls import delete_acls
    from moldau.common.protocol.acls import EVERYTHING, AclFilter
    from moldau.common.protocol.operations import PatternType, ResourceType

    named = resources.named()
    if not all(name.strip() for _, name in named) or not all(each.strip() for each in principals or ()):
        raise UsageError("a name is empty: nothing was removed")
    if everything:
        if operations or any(rule):
            raise UsageError("--all removes whatever the ACLs say: name only principals and resources")
        if not (named or principals):
            raise UsageError("nothing to remove: give --principal, --topic or another resource")
        places: Sequence[tuple[int, str | None]] = named or [(ResourceType.ANY, None)]
        filters = [
            EVERYTHING._replace(
                resource_type=kind, resource_name=name, pattern_type=PatternType.ANY, principal=who
            )
            for kind, name in places
            for who in ([_principal(each) for each in principals] if principals else [None])
        ]
    else:
        acls = _acls(principals, operations, named, rule)
        filters = [AclFilter(*acl) for acl in acls]
    gone = _told(delete_acls, connect(), filters)
    _show("removed", sorted(gone), as_json)
    if not gone and not as_json:
        note("nothing was removed: there is no such ACL; `moldau acls list` shows what there is")


@app.command()
@connected
def explain(
    connect: Connect,
    principal: Annotated[
        str, typer.Option("--principal", "-p", metavar="TYPE:NAME", help="Who: alice is User:alice.")
    ],
    operation: Annotated[str, typer.Option("--operation", "-o", help="read, write, describe ...")],
    resources: Resources = Resources(),
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="From where; it matters for ACLs with hosts.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Say whether a principal may do something to a resource, and which rule decides. Exit code 1: it may
    not.
    """
    from moldau.client.admin.acls import find_acls
    from moldau.common.access.acl_explanation import Question
    from moldau.common.access.acl_explanation import explain as explained
    from moldau.common.protocol.acls import EVERYTHING
    from moldau.common.protocol.operations import PatternType

    named = resources.named()
    if len(named) != 1:
        raise UsageError("name one resource: --topic, --group, --transactional-id or --cluster")
    ((kind, name),) = named
    question = Question(_principal(principal), host, _operation(operation), kind, name)
    connection = connect()
    wanted = EVERYTHING._replace(resource_type=kind, resource_name=name, pattern_type=PatternType.MATCH)
    acls = _told(find_acls, connection, wanted)
    super_users, allow_everyone = _settings_of(connection)
    found = explained(question, acls, super_users, allow_everyone=allow_everyone)
    if as_json:
        print_json(
            {
                "allowed": found.allowed,
                "rule": found.rule,
                "deciding": [_row(acl) for acl in found.deciding],
                "others": [_row(acl) for acl in found.others],
            }
        )
    else:
        word = "may" if found.allowed else "may not"
        print(f"{question.principal} {word} {operation.upper()} {kind.name} {name}: {found.rule}.")
        for acl in found.deciding:
            print(f"  {_line(acl)}")
        if found.others:
            note(f"{len(found.others)} further ACLs apply to {name} and do not decide this:")
            for acl in found.others:
                note(f"  {_line(acl)}")
    if not found.allowed:
        raise typer.Exit(1)


# The command line


def _principal(text: str) -> str:
    return text if ":" in text else f"User:{text}"


def _operation(text: str) -> Operation:
    from moldau.common.protocol.operations import Operation

    found = Operation.__members__.get(text.strip().upper().replace("-", "_"))
    if found is None or found < Operation.ALL:
        words = ", ".join(each.name.lower().replace("_", "-") for each in Operation if each >= Operation.ALL)
        raise UsageError(f"no operation {text!r}: one of {words}")
    return found


def _acls(
    principals: list[str] | None,
    operations: list[str] | None,
    named: Sequence[tuple[ResourceType, str]],
    rule: Rule,
) -> list[Acl]:
    from moldau.common.protocol.acls import Acl
    from moldau.common.protocol.operations import PatternType, Permission, ResourceType

    if not principals:
        raise UsageError("whom is it about? Give --principal NAME; --principal 'User:*' is everyone")
    if not named:
        raise UsageError("which resource? Give --topic, --group, --transactional-id or --cluster")
    if not (operations or rule.producer or rule.consumer):
        raise UsageError("what may they do? Give --operation, --producer or --consumer")
    prefixed = PatternType.PREFIXED if rule.prefix else PatternType.LITERAL
    acls: dict[Acl, None] = {}
    for kind, name in named:
        asked = _operations_on(kind, operations, rule)
        pattern: PatternType = PatternType.LITERAL if kind is ResourceType.CLUSTER else prefixed
        permission = Permission.DENY if rule.deny else Permission.ALLOW
        for principal in principals:
            for operation in asked:
                for host in rule.hosts or ["*"]:
                    acls[Acl(kind, name, pattern, _principal(principal), host, operation, permission)] = None
    return list(acls)


def _operations_on(kind: ResourceType, operations: list[str] | None, rule: Rule) -> list[Operation]:
    from moldau.common.protocol.operations import OPERATIONS_OF, Operation, ResourceType

    asked = [_operation(each) for each in operations or ()]
    wrong = [each for each in asked if each not in (Operation.ALL, *OPERATIONS_OF[kind])]
    if wrong:
        words = ", ".join(each.name.lower().replace("_", "-") for each in OPERATIONS_OF[kind])
        raise UsageError(f"there is no {wrong[0].name} on a {kind.name}: use all or one of {words}")
    if rule.producer:
        asked += {
            ResourceType.TOPIC: [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE],
            ResourceType.TRANSACTIONAL_ID: [Operation.WRITE, Operation.DESCRIBE],
            ResourceType.CLUSTER: [Operation.IDEMPOTENT_WRITE],
        }.get(kind, [])
    if rule.consumer:
        asked += {
            ResourceType.TOPIC: [Operation.READ, Operation.DESCRIBE],
            ResourceType.GROUP: [Operation.READ],
        }.get(kind, [])
    return asked


# The broker


def _told(function: Any, connection: Connection, argument: Any) -> Any:
    """Call a function of client/admin/acls.py; a refusal becomes a sentence with what to do."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.errors import error_words
    from moldau.common.protocol.errors import ErrorCode

    try:
        return function(connection.cluster(), argument)
    except KafkaProblem as refused:
        advices: dict[int, str] = {
            ErrorCode.SECURITY_DISABLED: "start brokers with authorizer.class.name="
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer and super.users=User:NAME",
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "log in as a super user, or as a principal with ALTER "
            "(to see: DESCRIBE) on the cluster, with --command-config or -X",
        }
        advice = advices.get(refused.error_code)
        words = error_words(refused.error_code)
        if refused.reason and refused.reason.rstrip(".") not in words:
            words = f"{refused.reason.rstrip('.')} ({words.rpartition('(')[2]}"
        raise CommandError(f"{words}; {advice}" if advice else words) from None


def _settings_of(connection: Connection) -> tuple[Sequence[str], bool]:
    """super.users, and allow.everyone.if.no.acl.found."""
    from moldau.client.admin.configs import BROKER, describe_configs
    from moldau.client.admin.topics import describe_cluster
    from moldau.common.core.principals import parse_super_users

    cluster = connection.cluster()
    broker = str(describe_cluster(cluster).brokers[0].broker_id)
    values = {each.name: each.value for each in describe_configs(cluster, BROKER, [broker])[broker]}
    users = parse_super_users(values["super.users"] or "")
    return users, values["allow.everyone.if.no.acl.found"] == "true"


# What is shown


def _row(acl: Acl) -> dict[str, Any]:
    from moldau.common.access.acl_text import word
    from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

    return {
        "permission": word(Permission, acl.permission),
        "principal": acl.principal,
        "operation": word(Operation, acl.operation),
        "resource_type": word(ResourceType, acl.resource_type),
        "name": acl.resource_name,
        "pattern": word(PatternType, acl.pattern_type),
        "host": acl.host,
    }


def _line(acl: Acl) -> str:
    from moldau.common.access.acl_text import described

    return described(*acl)


def _show(what: str, acls: Sequence[Acl], as_json: bool) -> None:
    if as_json:
        print_json({what: [_row(acl) for acl in acls]})
        return
    for acl in acls:
        print(f"{what}: {_line(acl)}")
