"""kafka-acls and `moldau acls` without a broker's connection: what a command line asks for, and what is said
about one that cannot be.

The sentences are those that Kafka's own tool prints.
"""

import pytest
from fake_layout import fake_layout

from moldau.broker.metadata.changes import AclsCreated, AclsDeleted, replay
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.common.access.acl_explanation import Question, explain
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from moldau.common.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from moldau.common.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType
from moldau.tools.app import run as run_moldau
from moldau.tools.kafka.programs import acls as tool
from moldau.tools.kafka.running import run

SERVER = ["--bootstrap-server", "localhost:9092"]


class Held:
    """Answers as a broker with these ACLs does; no error."""

    def __init__(self):
        self.image = EMPTY_IMAGE
        self.error = (0, None)

    def change(self, change):
        self.image = replay(self.image, self.image.version + 1, [change])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, request):
        code, message = self.error
        if isinstance(request, DescribeAclsRequest):
            found = self.matching(filter_of(request))
            resources = [
                DescribeAclsResource(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                    acls=[
                        AclDescription(
                            principal=acl.principal,
                            host=acl.host,
                            operation=acl.operation,
                            permission_type=acl.permission,
                        )
                    ],
                )
                for acl in found
            ]
            return DescribeAclsResponse(error_code=code, error_message=message, resources=resources)
        if isinstance(request, CreateAclsRequest):
            made = [
                Acl(
                    each.resource_type,
                    each.resource_name,
                    each.resource_pattern_type,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
                for each in request.creations
            ]
            self.change(AclsCreated(tuple(made)))
            return CreateAclsResponse(results=[AclCreationResult(error_message=None) for _ in made])
        assert isinstance(request, DeleteAclsRequest)
        results = []
        for each in request.filters:
            gone = self.matching(filter_of(each))
            self.change(AclsDeleted(tuple(gone)))
            rows = [
                DeleteAclsMatchingAcl(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in gone
            ]
            results.append(DeleteAclsFilterResult(error_message=None, matching_acls=rows))
        return DeleteAclsResponse(filter_results=results)

    def matching(self, wanted):
        return [acl for acl in self.image.acls if wanted.matches(acl)]


def filter_of(row):
    return AclFilter(
        row.resource_type_filter,
        row.resource_name_filter,
        row.pattern_type_filter,
        row.principal_filter,
        row.host_filter,
        row.operation,
        row.permission_type,
    )


@pytest.fixture
def held(monkeypatch):
    made = Held()
    cluster = fake_layout([1], {}, lambda _, request: made.ask(request)).cluster
    monkeypatch.setattr(tool, "reach", lambda servers, settings: cluster)
    return made


def acls(*words):
    return run("kafka-acls.sh", [*SERVER, *words])


def lines(held):
    return sorted(
        f"{Permission(acl.permission).name} {acl.principal} {Operation(acl.operation).name} "
        f"{ResourceType(acl.resource_type).name}:{PatternType(acl.pattern_type).name}:{acl.resource_name} "
        f"{acl.host}"
        for acl in held.image.acls
    )


def test_an_acl_is_added_once_and_the_lines_are_kafkas(held, capsys):
    words = ["--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders"]
    assert acls(*words) == 0
    assert capsys.readouterr().out == (
        "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`: \n"
        " \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)\n\n"
    )
    assert acls(*words) == 0
    assert capsys.readouterr().out == (
        "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL), "
        "entry=(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)) already exists.\n"
    )
    assert acls("--list") == 0
    assert capsys.readouterr().out == (
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`:\n"
        "\t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)\n\n"
    )


def test_operations_are_taken_in_any_case(held):
    words = ["--add", "--allow-principal", "User:alice", "--topic", "orders"]
    for spelt in ("WRITE", "read", "DescribeConfigs", "ALTERCONFIGS", "Alter_Configs"):
        words += ["--operation", spelt]
    assert acls(*words) == 0
    assert [line.split()[2] for line in lines(held)] == ["ALTER_CONFIGS", "DESCRIBE_CONFIGS", "READ", "WRITE"]


def test_a_producer_with_a_transactional_id_and_idempotence(held):
    assert (
        acls(
            *["--add", "--producer", "--idempotent", "--allow-principal", "User:p", "--topic", "t"],
            *["--transactional-id", "x"],
        )
        == 0
    )
    assert lines(held) == [
        "ALLOW User:p CREATE TOPIC:LITERAL:t *",
        "ALLOW User:p DESCRIBE TOPIC:LITERAL:t *",
        "ALLOW User:p DESCRIBE TRANSACTIONAL_ID:LITERAL:x *",
        "ALLOW User:p IDEMPOTENT_WRITE CLUSTER:LITERAL:kafka-cluster *",
        "ALLOW User:p WRITE TOPIC:LITERAL:t *",
        "ALLOW User:p WRITE TRANSACTIONAL_ID:LITERAL:x *",
    ]


def test_a_consumer_of_prefixes_from_two_hosts(held):
    assert (
        acls(
            *["--add", "--consumer", "--allow-principal", "User:c", "--topic", "t", "--group", "g"],
            *["--resource-pattern-type", "prefixed", "--allow-host", "h1", "--allow-host", "h2"],
        )
        == 0
    )
    assert lines(held) == [
        f"ALLOW User:c {operation} {place} {host}"
        for operation, place in (
            ("DESCRIBE", "TOPIC:PREFIXED:t"),
            ("READ", "GROUP:PREFIXED:g"),
            ("READ", "TOPIC:PREFIXED:t"),
        )
        for host in ("h1", "h2")
    ]


def test_allowed_and_denied_principals_have_their_own_hosts(held):
    assert (
        acls(
            *["--add", "--allow-principal", "User:*", "--deny-principal", "User:bad", "--deny-host", "h"],
            *["--operation", "Write", "--topic", "*"],
        )
        == 0
    )
    assert lines(held) == ["ALLOW User:* WRITE TOPIC:LITERAL:* *", "DENY User:bad WRITE TOPIC:LITERAL:* h"]


def test_removal_asks_unless_forced(held, monkeypatch, capsys):
    add = ["--add", "--allow-principal", "User:a", "--topic", "t"]
    assert acls(*add) == 0
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115
    remove = ["--remove", "--topic", "t"]
    assert acls(*remove) == 0
    assert "Are you sure you want to delete all ACLs for resource filter `ResourcePattern(" in (
        capsys.readouterr().out
    )
    assert len(held.image.acls) == 1, "nobody said y"
    assert acls("--remove", "--allow-principal", "User:b", "--topic", "t", "--force") == 0
    assert len(held.image.acls) == 1, "another principal's"
    assert acls(*remove, "--force") == 0
    assert not held.image.acls


def test_a_list_for_principals(held, capsys):
    for name in ("a", "b"):
        assert acls("--add", "--allow-principal", f"User:{name}", "--cluster") == 0
    capsys.readouterr()
    assert acls("--list", "--principal", "User:b", "--principal", "User:none") == 0
    assert capsys.readouterr().out == (
        "ACLs for principal `User:b`\n"
        "Current ACLs for resource `ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, "
        "patternType=LITERAL)`:\n"
        "\t(principal=User:b, host=*, operation=ALL, permissionType=ALLOW)\n\n"
        "ACLs for principal `User:none`\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--list"], "One of --bootstrap-server or --bootstrap-controller must be specified"),
        (
            [*SERVER, "--bootstrap-controller", "c:1", "--list"],
            "Only one of --bootstrap-server or --bootstrap-controller must be specified",
        ),
        (SERVER, "Command must include exactly one action: --list, --add, --remove. "),
        ([*SERVER, "--add", "--list"], "Command must include exactly one action: --list, --add, --remove. "),
        ([*SERVER, "--list", "--producer"], 'Option "[list]" can\'t be used with option "[producer]"'),
        (
            [*SERVER, "--add", "--producer", "--operation", "Read", "--topic", "t"],
            'Option "[producer]" can\'t be used with option "[operation]"',
        ),
        (
            [*SERVER, "--add", "--principal", "User:a", "--topic", "t"],
            "The --principal option is only available if --list is set",
        ),
        ([*SERVER, "--add", "--producer"], "With --producer you must specify a --topic"),
        (
            [*SERVER, "--add", "--idempotent", "--topic", "t"],
            "The --idempotent option is only available if --producer is set",
        ),
        (
            [*SERVER, "--add", "--consumer", "--topic", "t"],
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
            "option should be specified.",
        ),
        (
            [*SERVER, "--add", "--topic", "t"],
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.",
        ),
        (
            [*SERVER, "--add", "--allow-principal", "User:a"],
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>",
        ),
        (
            [
                *SERVER,
                "--add",
                "--allow-principal",
                "User:a",
                "--topic",
                "t",
                "--resource-pattern-type",
                "any",
            ],
            "A '--resource-pattern-type' value of 'ANY' is not valid when adding acls.",
        ),
        (
            [*SERVER, "--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Nope"],
            "ResourceType TOPIC only supports operations [ALL, ",
        ),
        (
            [*SERVER, "--add", "--allow-principal", "User:a", "--group", "g", "--operation", "Write"],
            "ResourceType GROUP only supports operations [ALL, ",
        ),
    ],
)
def test_a_command_line_that_cannot_be(words, sentence, capsys):
    assert run("kafka-acls", words) == 1
    said = capsys.readouterr()
    assert said.err.startswith(sentence)
    assert not said.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--add", "--allow-principal", "alice", "--topic", "t"],
            "expected a string in format principalType:principalName but got alice",
        ),
        (
            ["--list", "--topic", "t", "--resource-pattern-type", "foo"],
            "Cannot parse argument 'foo' of option resource-pattern-type",
        ),
    ],
)
def test_words_that_kafkas_tool_reads_late(words, sentence, capsys):
    assert acls(*words) == 1
    assert capsys.readouterr().out == f"Error while executing ACL command: {sentence}\n"


def test_a_refusal_is_told_in_kafkas_words(held, capsys):
    held.error = (54, "No Authorizer is configured on the broker")
    assert acls("--list") == 1
    assert capsys.readouterr().out == (
        "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException: "
        "No Authorizer is configured on the broker\n"
    )


# moldau acls


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["add", "--topic", "t", "-o", "read"], "whom is it about?"),
        (["add", "-p", "a", "-o", "read"], "which resource?"),
        (["add", "-p", "a", "--topic", "t"], "what may they do?"),
        (["add", "-p", "a", "--topic", "t", "-o", "raed"], "no operation 'raed': one of all, read, write"),
        (["add", "-p", "a", "-g", "g", "-o", "write"], "there is no WRITE on a GROUP"),
        (["remove", "--all"], "nothing to remove"),
        (["remove", "--all", "-p", "a", "--deny"], "--all removes whatever the ACLs say"),
        (["explain", "-p", "a", "-o", "read"], "name one resource"),
    ],
)
def test_moldau_acls_says_what_to_type(words, sentence, capsys):
    assert run_moldau(["acls", *words]) == 2
    assert sentence in capsys.readouterr().err


READ = Acl(2, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
NO_READ = READ._replace(permission=Permission.DENY, resource_name="or", pattern_type=PatternType.PREFIXED)
OTHER = READ._replace(principal="User:bob")


@pytest.mark.parametrize(
    ("held_acls", "options", "allowed", "rule", "deciding"),
    [
        ([READ, OTHER], {}, True, "an ACL allows it", [READ]),
        ([READ, NO_READ, OTHER], {}, False, "outweighs", [NO_READ]),
        ([NO_READ], {}, False, "an ACL denies it", [NO_READ]),
        ([OTHER], {}, False, "is about User:alice or User:*", []),
        ([OTHER], {"allow_everyone": True}, False, "is about User:alice or User:*", []),
        ([], {}, False, "there is no ACL", []),
        ([], {"allow_everyone": True}, True, "allow.everyone.if.no.acl.found=true", []),
        ([NO_READ], {"super_users": ["User:alice"]}, True, "super.users", []),
    ],
)
def test_the_rule_that_decides(held_acls, options, allowed, rule, deciding):
    question = Question("User:alice", "10.0.0.1", Operation.READ, 2, "orders")
    options = {"super_users": [], "allow_everyone": False, **options}
    found = explain(question, held_acls, **options)
    assert found.allowed is allowed
    assert rule in found.rule
    assert list(found.deciding) == deciding
    assert sorted([*found.deciding, *found.others]) == sorted(held_acls)
