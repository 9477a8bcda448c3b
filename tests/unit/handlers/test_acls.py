"""CreateAcls, DescribeAcls and DeleteAcls through the bytes of every version, on a real controller."""

import asyncio
import inspect

import pytest
from admin_world import every_version, start

from moldau.broker.controller.acls import ACLS_AN_ENTRY, ACLS_MAX
from moldau.broker.controller.decision import RECORDS_MAX, Decision
from moldau.broker.handlers.apis.security import create_acls, delete_acls, describe_acls  # noqa: F401
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.changes import AclsCreated, AclsDeleted, FeatureLevelChanged
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.authorizer import Authorizer
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.common.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ = Acl(TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
EVERYTHING = (ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def scenario(tmp_path, body, **options):
    async def run():
        broker = await start(tmp_path)
        authorizer = Authorizer(super_users=["User:root"], **options)
        authorizer.image_changed(EMPTY_IMAGE, broker.metadata.image, ())
        broker.metadata.subscribe(authorizer.image_changed, "the authorizer")
        broker.authorizer = authorizer
        try:
            await body(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(run())


async def ask(broker, request, version=3, principal="User:root"):
    session = Session("PLAINTEXT", client_host="10.0.0.1")
    session.authenticate(principal, 0)
    request = type(request).decode(request.encode(version), version)
    answer = TABLE[type(request).KEY].handler(broker, RequestContext(version, 1, session), request)
    if inspect.isgenerator(answer):
        answer = all_steps(answer)
    if inspect.isawaitable(answer):
        answer = await answer
    return type(request).RESPONSE.decode(answer.encode(version), version)


def filled(struct, values):
    """The message with these values in the order of its fields."""
    names = list(struct.__annotations__)
    return struct(**dict(zip(names, values, strict=True)))


async def create(broker, *acls, **options):
    answer = await ask(
        broker, CreateAclsRequest(creations=[filled(AclCreation, acl) for acl in acls]), **options
    )
    return [(each.error_code, each.error_message) for each in answer.results]


async def describe(broker, filtered=EVERYTHING, **options):
    answer = await ask(broker, filled(DescribeAclsRequest, filtered), **options)
    if answer.error_code:
        return answer.error_code, answer.error_message
    return [
        Acl(one.resource_type, one.resource_name, one.pattern_type, *(each.principal, each.host),
            *(each.operation, each.permission_type))
        for one in answer.resources
        for each in one.acls
    ]  # fmt: skip


async def delete(broker, *filters, **options):
    answer = await ask(
        broker, DeleteAclsRequest(filters=[filled(DeleteAclsFilter, each) for each in filters]), **options
    )
    return [
        (
            each.error_code,
            each.error_message,
            [
                Acl(one.resource_type, one.resource_name, one.pattern_type, *(one.principal, one.host),
                    *(one.operation, one.permission_type))
                for one in each.matching_acls
            ],
        )
        for each in answer.filter_results
    ]  # fmt: skip


@pytest.mark.parametrize("version", every_version(CreateAclsRequest))
def test_made_seen_and_deleted_in_every_version(tmp_path, version):
    async def body(broker):
        prefixed = READ._replace(resource_name="or", pattern_type=PatternType.PREFIXED)
        before = broker.metadata.image.version
        assert await create(broker, READ, prefixed, READ, version=version) == [(0, None)] * 3
        assert broker.metadata.image.version == before + 1, "one entry"
        assert await create(broker, READ, version=version) == [(0, None)]
        assert broker.metadata.image.version == before + 1, "it was there"
        assert await describe(broker, version=version) == [READ, prefixed]
        assert await delete(broker, READ, READ, version=version) == [(0, None, [READ])] * 2
        assert await delete(broker, READ, version=version) == [(0, None, [])]
        assert await describe(broker, version=version) == [prefixed]

    scenario(tmp_path, body)


def test_without_an_authorizer_security_is_disabled(tmp_path):
    async def body(broker):
        broker.authorizer = None
        disabled = ErrorCode.SECURITY_DISABLED
        assert await create(broker, READ, READ) == [(disabled, "No Authorizer is configured.")] * 2
        assert await delete(broker, READ) == [(disabled, "No Authorizer is configured.", [])]
        assert await describe(broker) == (disabled, "No Authorizer is configured on the broker")

    scenario(tmp_path, body)


def test_who_may_not_alter_the_cluster_changes_and_sees_nothing(tmp_path):
    async def body(broker):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        message = "Cluster authorization failed."
        await create(broker, READ)
        version = broker.metadata.image.version
        other = READ._replace(resource_name="other")
        assert await create(broker, other, principal="User:alice") == [(refused, message)]
        assert await delete(broker, EVERYTHING, principal="User:alice") == [(refused, message, [])]
        assert await describe(broker, principal="User:alice") == (refused, message)
        assert broker.metadata.image.version == version
        alter = Acl(CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:alice", "*", Operation.ALTER, 3)
        await create(broker, alter)
        assert await create(broker, other, principal="User:alice") == [(0, None)]
        assert len(await describe(broker, principal="User:alice")) == 3, "ALTER implies DESCRIBE"
        assert await delete(broker, alter, principal="User:alice") == [(0, None, [alter])]
        assert await describe(broker, principal="User:alice") == (refused, message), "at once"

    scenario(tmp_path, body)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": -7}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 16}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "no colon is present"),
        ({"host": "10.0.0.0/33"}, "neither an address nor a network"),
        ({"host": "/10.0.0.1"}, "neither an address nor a network"),
        ({"host": ""}, "Host should not be empty"),
        ({"host": "h" * 256}, "not more"),
    ],
)
def test_what_is_no_acl_is_refused_and_the_others_are_made(tmp_path, changed, message):
    async def body(broker):
        (good, bad) = await create(broker, READ, READ._replace(**changed))
        assert good == (0, None)
        assert bad[0] == ErrorCode.INVALID_REQUEST
        assert message in bad[1]
        assert list(broker.metadata.image.acls) == [READ]

    scenario(tmp_path, body)


def test_a_resource_needs_not_exist_and_names_may_be_anything(tmp_path):
    async def body(broker):
        strange = [
            READ._replace(resource_name="no such topic\n"),
            READ._replace(resource_name="or*"),
            READ._replace(principal="User:CN=a,O=b; c"),
            READ._replace(host="not.an.address"),
        ]
        assert await create(broker, *strange) == [(0, None)] * 4
        assert await describe(broker) == strange

    scenario(tmp_path, body)


FILTERED = [
    READ._replace(resource_name="o", host="10.0.0.1", permission=Permission.DENY),
    READ,
    READ._replace(resource_name="or", pattern_type=PatternType.PREFIXED),
    READ._replace(resource_name="orders", pattern_type=PatternType.PREFIXED),
    READ._replace(resource_name="orders2"),
    READ._replace(resource_name="*"),
    READ._replace(resource_name="*", resource_type=GROUP, principal="User:*", operation=Operation.ALL),
]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6]),
        ({"resource_type": GROUP}, [6]),
        ({"resource_name": "orders"}, [1, 3]),
        ({"resource_name": "orders", "pattern_type": PatternType.LITERAL}, [1]),
        ({"pattern_type": PatternType.PREFIXED}, [2, 3]),
        ({"resource_name": "orders", "pattern_type": PatternType.MATCH}, [1, 2, 3, 5, 6]),
        ({"resource_name": "orders2", "pattern_type": PatternType.MATCH}, [2, 3, 4, 5, 6]),
        ({"resource_name": "*", "pattern_type": PatternType.MATCH}, [5, 6]),
        ({"pattern_type": PatternType.MATCH}, [0, 1, 2, 3, 4, 5, 6]),
        ({"principal": "User:*"}, [6]),
        ({"host": "*", "resource_type": GROUP}, [6]),
        ({"host": "10.0.0.1"}, [0]),
        ({"operation": Operation.ALL}, [6]),
        ({"permission": Permission.DENY}, [0]),
        ({"principal": "User:nobody"}, []),
    ],
)
def test_filters(tmp_path, changed, expected):
    async def body(broker):
        await create(broker, *FILTERED)
        wanted = Acl(*EVERYTHING)._replace(**changed)
        assert await describe(broker, wanted) == [FILTERED[each] for each in expected]
        assert await delete(broker, wanted) == [(0, None, [FILTERED[each] for each in expected])]
        left = [acl for number, acl in enumerate(FILTERED) if number not in expected]
        assert list(broker.metadata.image.acls) == left

    scenario(tmp_path, body)


@pytest.mark.parametrize(
    "changed", [{"resource_type": 0}, {"pattern_type": 9}, {"operation": 0}, {"permission": -1}]
)
def test_what_is_no_filter_is_refused_and_the_others_hold(tmp_path, changed):
    async def body(broker):
        await create(broker, READ)
        bad = Acl(*EVERYTHING)._replace(**changed)
        code, message = await describe(broker, bad)
        assert code == ErrorCode.INVALID_REQUEST
        assert "Unknown" in message
        refused, done = await delete(broker, bad, READ)
        assert refused == (ErrorCode.INVALID_REQUEST, message, [])
        assert done == (0, None, [READ])

    scenario(tmp_path, body)


def test_many_are_cut_into_entries_in_which_never_more_is_allowed_than_before_and_after(tmp_path):
    async def body(broker):
        count = ACLS_AN_ENTRY * 2 + 5
        acls = [
            READ._replace(resource_name=f"t{number}", permission=2 + (number % 7 != 0))
            for number in range(count)
        ]
        entries = []
        broker.metadata.subscribe(lambda old, new, changes: entries.append(list(changes)))
        assert await create(broker, *acls) == [(0, None)] * count
        made = [acl for (change,) in entries for acl in change.acls]
        assert [type(change) for (change,) in entries] == [AclsCreated] * 3
        assert sorted(made) == sorted(acls)
        kinds = [acl.permission for acl in made]
        assert kinds == sorted(kinds), "denials first"
        entries.clear()
        ((code, message, deleted),) = await delete(broker, EVERYTHING)
        assert (code, message, sorted(deleted)) == (0, None, sorted(acls))
        assert [type(change) for (change,) in entries] == [AclsDeleted] * 3
        kinds = [acl.permission for (change,) in entries for acl in change.acls]
        assert kinds == sorted(kinds, reverse=True), "denials last"
        assert not broker.metadata.image.acls

    scenario(tmp_path, body)


def test_more_than_fits_into_one_request_or_cluster_is_refused_as_a_whole(tmp_path, monkeypatch):
    async def body(broker):
        acls = tuple(READ._replace(resource_name=f"t{number}") for number in range(RECORDS_MAX + 1))
        results = await create(broker, *acls)
        assert {code for code, _ in results} == {ErrorCode.POLICY_VIOLATION}
        assert not broker.metadata.image.acls
        await broker.controller.decide(lambda image: Decision([AclsCreated(acls)], None))
        results = await delete(broker, EVERYTHING, acls[0])
        assert {code for code, _, _ in results} == {ErrorCode.POLICY_VIOLATION}
        assert "Cannot remove more than 10000 acls" in results[0][1]
        assert len(broker.metadata.image.acls) == len(acls)
        monkeypatch.setattr("moldau.broker.controller.acls.ACLS_MAX", len(acls) + 1)
        one, other = READ._replace(resource_name="u"), READ._replace(resource_name="v")
        results = await create(broker, one, acls[0], other, one)
        assert [code for code, _ in results] == [0, 0, ErrorCode.POLICY_VIOLATION, 0]
        assert ACLS_MAX > RECORDS_MAX

    scenario(tmp_path, body)


def test_an_older_level_refuses_with_a_sentence_that_says_what_to_type(tmp_path):
    async def body(broker):
        await broker.controller.decide(lambda image: Decision([FeatureLevelChanged(2)], None))
        ((code, message),) = await create(broker, READ)
        assert code == ErrorCode.UNSUPPORTED_VERSION
        assert "kafka-features upgrade --feature moldau.metadata.version=3" in message
        assert not broker.metadata.image.acls

    scenario(tmp_path, body)


def test_acls_survive_a_restart_also_within_a_snapshot(tmp_path):
    async def body(broker):
        await create(broker, *FILTERED)

    async def again(broker):
        assert list(broker.metadata.image.acls) == FILTERED
        broker.controller._store._compact()

    async def at_last(broker):
        assert list(broker.metadata.image.acls) == FILTERED
        assert await describe(broker) == FILTERED

    for each in (body, again, at_last):
        scenario(tmp_path, each)
