"""Decisions on settings and leaders."""

import pytest

from moldau.broker.controller.configs import AlterResource, Operation, alter_configs
from moldau.broker.controller.election import ElectionType, elect_leaders
from moldau.broker.controller.in_sync import best_leader
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.configs import effective_broker_settings
from moldau.broker.metadata.describe import Source, describe_broker, describe_broker_defaults
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, ResourceType, TopicState
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.sources import from_texts


def at_once(decide, *args, **named):
    """What `decide` gives in steps."""
    return all_steps(decide(*args, **named))


TOPIC, BROKER, GROUP = int(ResourceType.TOPIC), int(ResourceType.BROKER), int(ResourceType.GROUP)
SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT


def image_with(*partitions, configs=None, brokers=(1,)):
    topic = TopicState("a", b"a" * 16, partitions or (PartitionState.fresh((1,)),))
    return Image(
        brokers={n: BrokerState(n, 1, {}) for n in brokers},
        topics={"a": topic},
        topic_names={topic.topic_id: "a"},
        configs=configs or {},
    )


def alter(image, resource_type, name, *operations, replace_all=False):
    asked = [AlterResource(resource_type, name, operations, replace_all)]
    decision = at_once(alter_configs, image, asked, BrokerSettings())
    ((_, outcome),) = decision.answer
    after = replay(image, image.version + 1, decision.changes)
    return outcome, after.configs.get((ResourceType(resource_type), name), {})


def test_set_delete_append_subtract():
    configs = {(ResourceType.TOPIC, "a"): {"retention.ms": "1", "segment.ms": "2"}}
    outcome, after = alter(
        image_with(configs=configs),
        TOPIC,
        "a",
        ("retention.ms", SET, "5"),
        ("segment.ms", DELETE, None),
        ("cleanup.policy", APPEND, "compact"),
    )
    assert not outcome.failed
    assert after == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    configs = {(ResourceType.TOPIC, "a"): after}
    _, after = alter(image_with(configs=configs), TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))
    assert after["cleanup.policy"] == "compact"


def test_replacing_all_removes_what_is_not_named():
    configs = {(ResourceType.TOPIC, "a"): {"retention.ms": "1", "segment.ms": "2"}}
    outcome, after = alter(
        image_with(configs=configs), TOPIC, "a", ("segment.ms", SET, "9"), replace_all=True
    )
    assert not outcome.failed
    assert after == {"segment.ms": "9"}


@pytest.mark.parametrize(
    ("resource_type", "name", "operation", "code", "message"),
    [
        (TOPIC, "x", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (TOPIC, "a", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (
            TOPIC,
            "a",
            ("retention", SET, "1"),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: retention",
        ),
        (TOPIC, "a", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported"),
        (TOPIC, "a", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "its type is not LIST"),
        (TOPIC, "a", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (
            BROKER,
            "1",
            ("num.partitions", SET, "1"),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (BROKER, "", ("nothing.here", SET, "1"), ErrorCode.INVALID_REQUEST, "Unknown broker config name"),
        (BROKER, "", ("message.max.bytes", SET, "-1"), ErrorCode.INVALID_REQUEST, "must be at least 0"),
        (
            BROKER,
            "",
            ("ssl.client.auth", SET, "required"),
            ErrorCode.INVALID_REQUEST,
            "default cluster level, broker id must be specified: [ssl.client.auth]",
        ),
        (
            BROKER,
            "",
            ("log.cleaner.threads", SET, "128"),
            ErrorCode.INVALID_REQUEST,
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (BROKER, "7", ("message.max.bytes", SET, "1"), ErrorCode.INVALID_REQUEST, "Unexpected broker id"),
        (BROKER, "x", ("message.max.bytes", SET, "1"), ErrorCode.INVALID_REQUEST, "must be an integer"),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_REQUEST, "Default group"),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "1"),
            ErrorCode.INVALID_CONFIG,
            "greater than or equal to",
        ),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "99999"),
            ErrorCode.INVALID_CONFIG,
            "less than or equal",
        ),
        (
            GROUP,
            "g",
            ("consumer.assignment.interval.ms", SET, "15001"),
            ErrorCode.INVALID_CONFIG,
            "less than or equal",
        ),
        (GROUP, "g", ("x", SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown group config name"),
        (99, "g", ("x", SET, "1"), ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
def test_refusals(resource_type, name, operation, code, message):
    decision = at_once(
        alter_configs, image_with(), [AlterResource(resource_type, name, [operation])], BrokerSettings()
    )
    ((_, outcome),) = decision.answer
    assert outcome.error_code is code
    assert message in outcome.message
    assert not decision.changes


def test_one_bad_setting_spoils_its_resource_and_no_other():
    asked = [
        AlterResource(TOPIC, "a", [("retention.ms", SET, "1"), ("segment.ms", SET, "x")]),
        AlterResource(GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
        AlterResource(GROUP, "h", []),
        AlterResource(GROUP, "h", []),
    ]
    decision = at_once(alter_configs, image_with(), asked, BrokerSettings())
    assert [o.error_code for _, o in decision.answer] == [
        ErrorCode.INVALID_CONFIG,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert set(replay(image_with(), 1, decision.changes).configs) == {(ResourceType.GROUP, "g")}


def test_settings_of_all_brokers_and_of_one():
    outcome, after = alter(image_with(), BROKER, "", ("message.max.bytes", SET, "5"))
    assert (outcome.failed, after) == (False, {"message.max.bytes": "5"})
    outcome, after = alter(image_with(), BROKER, "1", ("leader.replication.throttled.rate", SET, "5"))
    assert (outcome.failed, after) == (False, {"leader.replication.throttled.rate": "5"})


def test_the_best_leader():
    state = PartitionState(-1, 0, 0, (1, 2, 3), (2, 3))
    assert best_leader(state, {1, 2, 3}, unclean=False) == 2
    assert best_leader(state, {1, 3}, unclean=False) == 3
    assert best_leader(state, {1}, unclean=False) == -1
    assert best_leader(state, {1}, unclean=True) == 1


def test_elections():
    image = image_with(
        PartitionState(1, 0, 0, (1, 2), (1, 2)),
        PartitionState(2, 4, 7, (1, 2), (1, 2)),
        PartitionState(2, 0, 0, (3, 2), (3, 2)),
        PartitionState(-1, 5, 5, (2, 3), (3,)),
        brokers=(1, 2),
    )
    asked = {"a": [0, 1, 2, 3, 9], "x": [0]}
    decision = at_once(elect_leaders, image, ElectionType.PREFERRED, asked)
    assert [(i, o.error_code) for i, o in decision.answer["a"]] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (1, ErrorCode.NONE),
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (3, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert decision.answer["x"][0][1].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replay(image, 1, decision.changes).topics["a"].partitions[1] == PartitionState(
        1, 5, 8, (1, 2), (1, 2)
    )

    decision = at_once(elect_leaders, image, ElectionType.UNCLEAN, None)
    assert [(i, o.error_code) for i, o in decision.answer["a"]] == [(3, ErrorCode.NONE)]
    assert replay(image, 1, decision.changes).topics["a"].partitions[3] == PartitionState(
        2, 6, 6, (2, 3), (2,)
    )


def test_an_election_of_thousands_of_leaders_is_cut_into_entries():
    image = image_with(*[PartitionState(2, 4, 7, (1, 2), (1, 2))] * 2_500, brokers=(1, 2))
    decision = at_once(elect_leaders, image, ElectionType.PREFERRED, None)
    assert len(decision.answer["a"]) == 2_500
    entries = [*decision.earlier, decision.changes]
    assert [sum(len(each.partitions) for each in entry) for entry in entries] == [1_000, 1_000, 500]
    for version, changes in enumerate(entries, start=1):
        image = replay(image, version, changes)
    assert set(image.topics["a"].partitions) == {PartitionState(1, 5, 8, (1, 2), (1, 2))}


def test_a_setting_of_kafkas_without_effect_here_is_stored_and_removed():
    name = "sasl.kerberos.min.time.before.relogin"
    outcome, configs = alter(image_with(), BROKER, "1", (name, SET, "1000"))
    assert (outcome.error_code, configs) == (ErrorCode.NONE, {name: "1000"})
    stored = image_with(configs={(ResourceType.BROKER, "1"): configs})
    outcome, configs = alter(stored, BROKER, "1", (name, DELETE, None))
    assert (outcome.error_code, configs) == (ErrorCode.NONE, {})
    outcome, _ = alter(image_with(), BROKER, "1", (name, SET, "soon"))
    assert outcome.error_code is ErrorCode.INVALID_REQUEST


def test_to_remove_what_nobody_knows_changes_nothing():
    """As in Kafka; and a name that another version stored can be got rid of."""
    outcome, configs = alter(image_with(), BROKER, "1", ("nothing.here", DELETE, None))
    assert (outcome.error_code, configs) == (ErrorCode.NONE, {})
    stored = image_with(configs={(ResourceType.BROKER, "1"): {"nothing.here": "1"}})
    outcome, configs = alter(stored, BROKER, "1", ("nothing.here", DELETE, None))
    assert (outcome.error_code, configs) == (ErrorCode.NONE, {})
    outcome, configs = alter(stored, BROKER, "1", ("message.max.bytes", SET, "5"), replace_all=True)
    assert (outcome.error_code, configs) == (ErrorCode.NONE, {"message.max.bytes": "5"})


def test_alter_configs_keeps_names_of_a_broker_that_nobody_knows():
    """Old tools send back all that they have read, of plug-ins too."""
    stored = image_with()
    outcome, configs = alter(
        stored, BROKER, "1", ("log.cleaner.threads", SET, "2"), ("plugin.name", SET, "x"), replace_all=True
    )
    assert not outcome.failed
    assert configs == {"log.cleaner.threads": "2", "plugin.name": "x"}
    stored = image_with(configs={(ResourceType.BROKER, "1"): configs})
    entry = next(each for each in describe_broker(stored, from_texts({}), 1) if each.name == "plugin.name")
    assert (entry.value, entry.sensitive, entry.source) == (None, True, Source.DYNAMIC_BROKER)
    assert effective_broker_settings(stored, BrokerSettings(), 1).log_cleaner_threads == 2
    outcome, _ = alter(stored, BROKER, "1", ("plugin.other", SET, "x"))
    assert outcome.failed
    everybody = image_with(configs={(ResourceType.BROKER, ""): configs})
    assert {each.name: each.value for each in describe_broker_defaults(everybody)} == {
        "log.cleaner.threads": "2",
        "plugin.name": None,
    }
