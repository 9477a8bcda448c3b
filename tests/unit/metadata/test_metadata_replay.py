"""Changes, replay and their JSON: replaying what was written gives the same image; images share what did not
change."""

import json

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.metadata import changes as ch
from moldau.broker.metadata import mirror_changes as mirroring
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.codec import (
    decode_changes,
    decode_image,
    encode_changes,
    encode_image,
    entry_in_slices,
    to_json,
)
from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.image import EMPTY_IMAGE, LogEnd, PartitionState, ResourceType
from moldau.broker.metadata.mirrors import MirrorState, MirrorTopic
from moldau.common.core.slow_lane import all_steps
from moldau.common.credentials.scram import ScramCredential
from moldau.common.protocol.acls import Acl

NAMES = ["a", "b", "c.d", "ü"]
KINDS = [
    "create",
    "delete",
    "add",
    "change",
    "many",
    "feature",
    "config",
    "broker",
    "old broker",
    "renewed",
    "cluster broker",
    "ids",
    "control",
    "acls",
    "tokens",
    "scram",
    "quotas",
    "links",
    "mirrors",
]


def states():
    return st.builds(
        PartitionState,
        st.integers(-1, 3),
        st.integers(0, 9),
        st.integers(0, 9),
        st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
        st.lists(st.integers(0, 3), max_size=2).map(tuple),
        doubtful=st.one_of(st.just(()), st.lists(st.integers(0, 3), max_size=2).map(tuple)),
    )


def log_ends():
    return st.builds(LogEnd, *[st.integers(0, 9)] * 4)


def tokens():
    users = st.sampled_from(["User:a", "User:b"])
    return st.builds(
        DelegationToken,
        st.sampled_from(NAMES),
        users,
        users,
        st.lists(users, max_size=2).map(tuple),
        *[st.integers(0, 3)] * 3,
    )


def acls():
    return st.builds(
        Acl,
        st.integers(2, 3),
        st.sampled_from(NAMES),
        st.integers(3, 4),
        st.just("User:alice"),
        st.just("*"),
        st.integers(2, 4),
        st.integers(2, 3),
    )


def mirrors():
    return st.builds(
        MirrorTopic,
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.binary(min_size=16, max_size=16),
        st.sampled_from(MirrorState),
        st.lists(st.integers(0, 3), max_size=2).map(tuple),
        st.text(max_size=5),
    )


def scram_credentials():
    return st.builds(
        ScramCredential, st.binary(max_size=4), st.binary(max_size=4), st.binary(), st.integers(1, 9)
    )


@st.composite
def histories(draw):
    """Entries that make sense one after the other."""
    topics: dict[str, int] = {}
    entries, number = [], 0
    for _ in range(draw(st.integers(0, 12))):
        entry = []
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(KINDS))
            name = draw(st.sampled_from(NAMES))
            if kind == "create" and name not in topics:
                partitions = draw(st.lists(states(), min_size=1, max_size=3).map(tuple))
                number += 1
                topics[name] = len(partitions)
                entry.append(ch.TopicCreated(name, number.to_bytes(16, "big"), partitions))
            elif kind == "mirrors" and name in topics:
                entry.append(mirroring.MirrorTopicSet(name, draw(mirrors())))
                if draw(st.booleans()):
                    entry.append(mirroring.MirrorTopicRemoved(name))
            elif kind == "links":
                entry.append(mirroring.MirrorLinkSet(name, {"x": draw(st.text(max_size=5))}))
                if draw(st.booleans()):
                    entry.append(mirroring.MirrorLinkRemoved(draw(st.sampled_from(NAMES))))
            elif kind == "delete" and name in topics:
                del topics[name]
                entry.append(ch.TopicDeleted(name))
            elif kind == "add" and name in topics:
                topics[name] += 1
                entry.append(ch.PartitionsAdded(name, (draw(states()),)))
            elif kind == "change" and name in topics:
                entry.append(ch.PartitionChanged(name, topics[name] - 1, draw(states())))
            elif kind == "many" and name in topics:
                rows = st.tuples(st.integers(0, topics[name] - 1), states())
                entry.append(ch.PartitionsChanged(name, draw(st.lists(rows, max_size=3).map(tuple))))
            elif kind == "old broker":
                node = draw(st.integers(0, 3))
                entry.append(ch.BrokerRegisteredAndElected(node, number, {"P": ("host", 9092)}, None))
            elif kind == "renewed":
                entry.append(ch.LeadershipRenewed(draw(st.integers(0, 3))))
            elif kind == "config":
                value = draw(st.one_of(st.none(), st.text(max_size=5)))
                entry.append(ch.ConfigsChanged(draw(st.sampled_from(ResourceType)), name, {"x": value}))
            elif kind == "broker":
                entry.append(ch.BrokerRegistered(draw(st.integers(0, 3)), number, {"P": ("host", 9092)}, "r"))
            elif kind == "cluster broker":
                node = draw(st.integers(0, 3))
                registered = ch.BrokerRegistered(node, number, {}, None, (1, 2), ("disk",))
                entry += [ch.FeatureLevelChanged(2), registered]
                if draw(st.booleans()):
                    entry.append(ch.BrokerShuttingDown(node))
                if draw(st.booleans()):
                    indexes = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
                    entry.append(ch.ReplicasOffline(node, ((number.to_bytes(16, "big"), indexes),)))
                if draw(st.booleans()):
                    ends = tuple(draw(st.lists(log_ends(), max_size=2)))
                    entry.append(ch.LogEndsTold(node, ((number.to_bytes(16, "big"), ends),)))
            elif kind == "ids":
                entry.append(ch.ProducerIdsAllocated(1, draw(st.integers(0, 2**63 - 1))))
            elif kind == "tokens":
                entry.append(ch.DelegationTokenChanged(draw(tokens())))
                entry.append(
                    ch.DelegationTokensRemoved(tuple(draw(st.lists(st.sampled_from(NAMES), max_size=2))))
                )
            elif kind == "acls":
                entry.append(ch.AclsCreated(tuple(draw(st.lists(acls(), max_size=3)))))
                entry.append(ch.AclsDeleted(tuple(draw(st.lists(acls(), max_size=2)))))
            elif kind == "scram":
                mechanism = draw(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]))
                entry.append(ch.ScramSecretMade(draw(st.binary(max_size=4))))
                entry.append(ch.ScramCredentialSet(name, mechanism, draw(scram_credentials())))
                other = draw(st.sampled_from(NAMES))
                entry.append(ch.ScramCredentialRemoved(other, mechanism))
            elif kind == "quotas":
                entities = [(("user", name),), (("user", None), ("client-id", name)), (("ip", None),)]
                values = st.dictionaries(st.sampled_from("ab"), st.one_of(st.none(), st.floats(1, 9)))
                entry.append(ch.ClientQuotasChanged(draw(st.sampled_from(entities)), draw(values)))
            elif kind == "feature":
                entry.append(ch.FeatureChanged(name, draw(st.integers(0, 3))))
            elif kind == "control":
                entry.append(ch.ControllerElected(1, number))
        entries.append(entry)
    return entries


@given(histories())
def test_what_was_written_replays_to_the_same_image(history):
    image = again = EMPTY_IMAGE
    for version, entry in enumerate(history, start=1):
        before = (image, json.dumps(encode_image(image)))
        image = replay(image, version, entry)
        assert json.dumps(encode_image(before[0])) == before[1]
        again = replay(again, version, decode_changes(json.loads(to_json(encode_changes(entry)))))
    assert again == image
    assert decode_image(json.loads(to_json(encode_image(image)))) == image
    assert {t.topic_id: t.name for t in image.topics.values()} == image.topic_names


def test_images_share_what_did_not_change():
    one = replay(
        EMPTY_IMAGE, 1, [ch.TopicCreated(n, n.encode() * 16, (PartitionState.fresh((1,)),)) for n in "ab"]
    )
    two = replay(one, 2, [ch.PartitionsAdded("a", (PartitionState.fresh((1,)),))])
    assert two.configs is one.configs
    assert two.topics["b"] is one.topics["b"]
    assert two.topics["a"] is not one.topics["a"]
    assert len(one.topics["a"].partitions) == 1


def test_a_registration_changes_no_partition():
    """Who leads is the controller's decision: with several replicas, a leader that lost its tail would make
    the others cut off acknowledged records."""
    image = replay(
        EMPTY_IMAGE,
        1,
        [
            ch.BrokerRegistered(1, 1, {}, None),
            ch.TopicCreated("a", b"a" * 16, (PartitionState.fresh((1, 2)), PartitionState.fresh((2, 1)))),
        ],
    )
    after = replay(image, 2, [ch.BrokerRegistered(1, 2, {}, None)])
    assert after.topics is image.topics
    assert after.brokers[1].broker_epoch == 2


def test_what_does_not_use_a_new_field_is_written_as_before():
    usual = PartitionState(1, 2, 3, (1, 2), (1,))
    change = ch.PartitionChanged("a", 0, usual)
    assert encode_changes([change, change._replace(state=usual._replace(elr=(2,)))]) == [
        ["partition-changed", "a", 0, (1, 2, 3, (1, 2), (1,))],
        ["partition-changed", "a", 0, (1, 2, 3, (1, 2), (1,), (2,))],
    ]


def test_an_entry_written_in_slices_is_the_entry():
    rows = tuple(
        (index, PartitionState(1, index, 2, (1, 2), (1,), (2,) * (index % 2))) for index in range(150)
    )
    changes = [ch.PartitionsChanged("a", rows), ch.TopicCreated("b", b"b" * 16, tuple(s for _, s in rows))]
    value = json.loads(all_steps(entry_in_slices(7, changes)))
    assert value["version"] == 7
    assert decode_changes(value["changes"]) == changes


def test_deleting_a_topic_deletes_its_settings():
    image = replay(
        EMPTY_IMAGE,
        1,
        [
            ch.TopicCreated("a", b"a" * 16, (PartitionState.fresh((1,)),)),
            ch.ConfigsChanged(ResourceType.TOPIC, "a", {"retention.ms": "1"}),
        ],
    )
    assert replay(image, 2, [ch.TopicDeleted("a")]).configs == {}


@given(histories(), st.integers(0, 12))
def test_the_changes_between_two_images_lead_from_one_to_the_other(history, since):
    images = [EMPTY_IMAGE]
    for version, entry in enumerate(history, start=1):
        images.append(replay(images[-1], version, entry))
    old, new = images[min(since, len(images) - 1)], images[-1]
    changes = changes_between(old, new)
    assert replay(old, new.version, changes) == new
    assert changes_between(new, new) == []
    assert decode_changes(json.loads(to_json(encode_changes(changes)))) == changes


def test_a_topic_that_was_made_again_under_its_name_is_deleted_and_created():
    def created(number):
        return ch.TopicCreated("a", bytes([number]) * 16, (PartitionState.fresh((1,)),))

    old = replay(EMPTY_IMAGE, 1, [created(1), ch.ConfigsChanged(ResourceType.TOPIC, "a", {"x": "1"})])
    again = [ch.TopicDeleted("a"), created(2), ch.ConfigsChanged(ResourceType.TOPIC, "a", {"y": "2"})]
    new = replay(old, 2, again)
    assert changes_between(old, new) == again
