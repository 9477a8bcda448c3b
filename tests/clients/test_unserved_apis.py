"""What a broker without SASL and authorizer answers those who ask for them, and what it says of its
controller and its features: Apache Kafka 4.3.1's answers, in every version (`MOLDAU_TEST_BROKER=kafka`).

Where Kafka would store what Moldau cannot act upon (lower feature levels), Moldau
refuses; those rows name both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import KIND
from raw_client import RawClient

from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request, is_flexible
from moldau.common.protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_delegation_token,
    describe_quorum,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    update_features,
)

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
UPGRADE, SAFE, UNSAFE = 1, 2, 3
ANYTHING = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
QUORUM = [
    describe_quorum.TopicRequest(
        topic_name="__cluster_metadata", partitions=[describe_quorum.PartitionRequest()]
    )
]


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as one:
        yield one


def ask(raw: RawClient, request: Message, version: int) -> Any:
    """The answer, by our own codec: kio reads no time before 1970, and a token that is not made says -1."""
    kind = type(request)
    raw.send(frame_request(kind.KEY, version, 7, "test", request.encode(version)))
    header_bytes = 5 if is_flexible(kind.KEY, version) else 4
    return kind.RESPONSE.decode(raw.receive(), version, header_bytes)


def versions(kind: type[Message]) -> range:
    low, high = kind.VERSIONS
    return range(low, high + 1)


def test_sasl_on_a_plain_listener(raw: RawClient) -> None:
    for version in versions(sasl_handshake.SaslHandshakeRequest):
        answer = ask(raw, sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in versions(sasl_authenticate.SaslAuthenticateRequest):
        answer = ask(raw, sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
        assert answer.error_message


def test_access_rules_without_an_authorizer(raw: RawClient) -> None:
    for version in (1, 2, 3):
        described = ask(raw, describe_acls.DescribeAclsRequest(**ANYTHING), version)
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        assert described.error_message == "No Authorizer is configured on the broker"
        rule = create_acls.AclCreation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
        )
        created = ask(raw, create_acls.CreateAclsRequest(creations=[rule, rule]), version)
        assert [row.error_code for row in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        assert ask(raw, create_acls.CreateAclsRequest(), version).results == []
        some = delete_acls.DeleteAclsFilter(**ANYTHING)
        deleted = ask(raw, delete_acls.DeleteAclsRequest(filters=[some, some]), version)
        assert [row.error_code for row in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED] * 2
        assert [row.matching_acls for row in deleted.filter_results] == [[], []]


def test_delegation_tokens(raw: RawClient) -> None:
    for version in (1, 2, 3):
        request = create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=1000)
        created = ask(raw, request, version)
        owner = (created.principal_type, created.principal_name)
        assert (created.error_code, *owner) == (NOT_ALLOWED, "User", "ANONYMOUS")
        assert (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms) == (
            0,
            0,
            0,
        )
        assert (created.token_id, created.hmac) == ("", b"")
        if version >= 3:
            requester = (created.token_requester_principal_type, created.token_requester_principal_name)
            assert requester == ("User", "ANONYMOUS")
        described = ask(raw, describe_delegation_token.DescribeDelegationTokenRequest(owners=None), version)
        assert (described.error_code, described.tokens) == (NOT_ALLOWED, [])
    request = create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="a"
    )
    assert ask(raw, request, 3).principal_name == "a"
    for version in (1, 2):
        for kind in (
            renew_delegation_token.RenewDelegationTokenRequest,
            expire_delegation_token.ExpireDelegationTokenRequest,
        ):
            answer = ask(raw, kind(hmac=b"x"), version)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, 0)


def _component(entity_type: str, match_type: int = 0, match: str | None = "x") -> Any:
    return describe_client_quotas.ComponentData(entity_type=entity_type, match_type=match_type, match=match)


@pytest.mark.parametrize(
    ("components", "error_code"),
    [
        ([], ErrorCode.NONE),
        ([_component("user", 1, None)], ErrorCode.NONE),
        ([_component("user", 2, None)], ErrorCode.NONE),
        ([_component("user", 2)], ErrorCode.INVALID_REQUEST),
        ([_component("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([_component("user"), _component("client-id")], ErrorCode.NONE),
        ([_component("")], ErrorCode.INVALID_REQUEST),
        ([_component("nonsense")], ErrorCode.UNSUPPORTED_VERSION),
        ([_component("user"), _component("user")], ErrorCode.INVALID_REQUEST),
        ([_component("user"), _component("ip")], ErrorCode.INVALID_REQUEST),
        ([_component("user", 7)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_of_quotas(raw: RawClient, components: list[Any], error_code: int) -> None:
    for version in (0, 1):
        request = describe_client_quotas.DescribeClientQuotasRequest(components=components)
        answer = ask(raw, request, version)
        assert answer.error_code == error_code
        assert answer.entries == (None if error_code else [])
        assert bool(answer.error_message) == bool(error_code)


def _quota(key: str, *, remove: bool = False, kinds: tuple[str, ...] = ("user",)) -> Any:
    return alter_client_quotas.EntryData(
        entity=[alter_client_quotas.EntityData(entity_type=kind, entity_name="127.0.0.1") for kind in kinds],
        ops=[alter_client_quotas.OpData(key=key, value=1000.0, remove=remove)],
    )


def test_quotas_are_checked(raw: RawClient) -> None:
    entries = [
        _quota("producer_byte_rate"),
        _quota("nonsense"),
        _quota("consumer_byte_rate", remove=True),
        _quota("connection_creation_rate", kinds=("ip",)),
        _quota("connection_creation_rate"),
        _quota("producer_byte_rate", kinds=()),
        _quota("producer_byte_rate", kinds=("nonsense",)),
    ]
    bad = ErrorCode.INVALID_REQUEST
    expected = [ErrorCode.NONE, bad, ErrorCode.NONE, ErrorCode.NONE, bad, bad, bad]
    for version, (entry, error_code) in itertools.product((0, 1), zip(entries, expected, strict=True)):
        request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=True)
        (row,) = ask(raw, request, version).entries
        assert row.error_code == error_code, entry
        assert [one.entity_type for one in row.entity] == [one.entity_type for one in entry.entity]
        assert (row.error_message is None) == (error_code == ErrorCode.NONE)


def test_nobody_has_credentials(raw: RawClient) -> None:
    def describe(*names: str) -> Any:
        users = [describe_user_scram_credentials.UserName(name=name) for name in names]
        return ask(raw, describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users), 0)

    assert describe().results == []
    rows = {row.user: row.error_code for row in describe("a", "b", "a").results}
    assert rows == {"a": ErrorCode.DUPLICATE_RESOURCE, "b": ErrorCode.RESOURCE_NOT_FOUND}
    deletion = alter_user_scram_credentials.ScramCredentialDeletion(name="a", mechanism=1)
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[deletion])
    (row,) = ask(raw, request, 0).results
    assert (row.user, row.error_code) == ("a", ErrorCode.RESOURCE_NOT_FOUND)


def test_credentials_that_nobody_could_use(raw: RawClient) -> None:
    def upsertion(name: str, mechanism: int, iterations: int) -> Any:
        return alter_user_scram_credentials.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"x" * 32
        )

    bad = [
        upsertion("", 1, 4096), upsertion("b", 7, 4096), upsertion("c", 1, 1), upsertion("d", 2, 20_000),
        upsertion("e", 1, 4096), upsertion("e", 1, 4096),
    ]  # fmt: skip
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=bad)
    assert {row.user: row.error_code for row in ask(raw, request, 0).results} == {
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "b": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "c": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "d": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "e": ErrorCode.DUPLICATE_RESOURCE,
    }


def test_the_controller_is_the_quorum(raw: RawClient) -> None:
    seen = []
    for version in (0, 1, 2):
        answer = ask(raw, describe_quorum.DescribeQuorumRequest(topics=QUORUM), version)
        assert answer.error_code == ErrorCode.NONE
        ((partition,),) = [topic.partitions for topic in answer.topics]
        assert (partition.error_code, partition.partition_index) == (ErrorCode.NONE, 0)
        (voter,) = partition.current_voters
        assert voter.replica_id == partition.leader_id >= 0
        assert partition.leader_epoch >= 1
        assert 0 < partition.high_watermark <= voter.log_end_offset
        assert partition.observers == []
        if version >= 1:
            assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 1_000_000_000_000
        if version >= 2:
            assert voter.replica_directory_id != bytes(16)
            (node,) = answer.nodes
            assert node.node_id == partition.leader_id
            assert all(one.host and one.port for one in node.listeners)
            assert node.listeners
        seen.append(partition.high_watermark)
    assert seen == sorted(seen)


def test_other_quorums_are_not_known(raw: RawClient) -> None:
    other = describe_quorum.TopicRequest(topic_name="other", partitions=[describe_quorum.PartitionRequest()])
    second = describe_quorum.PartitionRequest(partition_index=1)
    for version in (0, 1, 2):
        for topics in (
            [other],
            [describe_quorum.TopicRequest(topic_name="__cluster_metadata", partitions=[second])],
            [*QUORUM, other],
        ):
            answer = ask(raw, describe_quorum.DescribeQuorumRequest(topics=topics), version)
            assert answer.error_code == ErrorCode.NONE
            codes = {one.error_code for topic in answer.topics for one in topic.partitions}
            assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert ask(raw, describe_quorum.DescribeQuorumRequest(), version).topics == []


LEVELS = {"group.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1}


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
@pytest.mark.parametrize("feature", [*LEVELS, "nonsense"])
def test_feature_levels(raw: RawClient, feature: str, kind: int) -> None:
    for level, version, dry in itertools.product((-1, 0, 1, 2, 3), (1, 2), (True, False)):
        present = LEVELS.get(feature)
        lower = present is not None and 0 <= level < present and kind != UPGRADE
        done = lower and (KIND == "kafka" or feature == "eligible.leader.replicas.version")
        if not dry and done:
            continue  # it would do it
        update = update_features.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
        answer = ask(
            raw, update_features.UpdateFeaturesRequest(feature_updates=[update], validate_only=dry), version
        )
        fine = level == present or done
        assert answer.error_code == (ErrorCode.NONE if fine else ErrorCode.INVALID_UPDATE_VERSION), level
        if fine:
            rows = [(row.feature, row.error_code) for row in answer.results]
            assert rows == ([(feature, ErrorCode.NONE)] if version < 2 else [])
            assert answer.error_message is None
        else:
            start = "The update failed for all features since the following feature had an error: "
            assert answer.error_message.startswith(start)
            assert answer.results == []


def test_features_are_updated_all_or_none(raw: RawClient) -> None:
    good = update_features.FeatureUpdateKey(feature="group.version", max_version_level=1)
    bad = update_features.FeatureUpdateKey(feature="nonsense", max_version_level=1)
    for version in (1, 2):
        for updates in ([good, bad], [bad, good]):
            request = update_features.UpdateFeaturesRequest(feature_updates=updates, validate_only=True)
            assert ask(raw, request, version).error_code == ErrorCode.INVALID_UPDATE_VERSION
        nothing = ask(raw, update_features.UpdateFeaturesRequest(validate_only=True), version)
        assert (nothing.error_code, nothing.results) == (ErrorCode.NONE, [])
    for kind in (0, 9):
        odd = update_features.FeatureUpdateKey(
            feature="group.version", max_version_level=1, upgrade_type=kind
        )
        request = update_features.UpdateFeaturesRequest(feature_updates=[odd], validate_only=True)
        assert ask(raw, request, 1).error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("key_type", [0, 1])
def test_find_coordinator_says_none_where_nothing_is_wrong(raw: RawClient, key_type: int) -> None:
    """Versions 1 to 3: KafkaJS takes no empty message."""
    for version in (1, 2, 3):
        for _ in range(200):
            answer = raw.call(10, version, key="anybody", key_type=key_type)
            if answer.error_code.name == "none":
                break
            assert answer.error_message
        assert (answer.error_code.name, answer.error_message) == ("none", "NONE")
    (row,) = raw.call(10, 4, coordinator_keys=["anybody"], key_type=key_type).coordinators
    assert (row.error_code.name, row.error_message) == ("none", "")
