"""AlterClientQuotas and DescribeClientQuotas: what is stored, refused and found, in every version."""

import asyncio

import pytest
from admin_world import ask, every_version, start

from moldau.broker.handlers import load_all
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import alter_client_quotas as alter
from moldau.common.protocol.messages import describe_client_quotas as describe

EXACT, DEFAULT, ANY = 0, 1, 2


def entry(parts, ops):
    return alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[
            alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in ops
        ],
    )


def request(*entries, validate_only=False):
    return alter.AlterClientQuotasRequest(
        entries=[entry(parts, ops) for parts, ops in entries], validate_only=validate_only
    )


def filtered(*components, strict=False):
    return describe.DescribeClientQuotasRequest(
        components=[
            describe.ComponentData(entity_type=kind, match_type=match_type, match=name)
            for kind, match_type, name in components
        ],
        strict=strict,
    )


def found(answer):
    assert answer.error_code == 0
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {one.key: one.value for one in each.values},
        )
        for each in answer.entries
    ]


def on_a_broker(scene, folder):
    async def main():
        load_all()
        broker = await start(folder)
        try:
            await scene(broker)
        finally:
            await broker.controller.this_broker.close()

    asyncio.run(main())


ALICE, ANYBODY = ("user", "alice"), ("user", None)


def test_quotas_are_set_changed_removed_and_kept_over_a_restart(tmp_path):
    async def scene(broker):
        for version in every_version(alter.AlterClientQuotasRequest):
            answer = await ask(
                broker,
                request(
                    ([ALICE], [("producer_byte_rate", 1000.0), ("request_percentage", 12.5)]),
                    ([ANYBODY, ("client-id", "app")], [("consumer_byte_rate", 5.0)]),
                    ([("ip", "::1")], [("connection_creation_rate", 7.0)]),
                ),
                version,
            )
            assert [row.error_code for row in answer.entries] == [0, 0, 0]
            assert [row.error_message for row in answer.entries] == [None] * 3
            assert answer.entries[1].entity == [
                alter.EntityData(entity_type="user", entity_name=None),
                alter.EntityData(entity_type="client-id", entity_name="app"),
            ]
            described = await ask(broker, filtered(), version)
            assert len(found(described)) == 3
            pairs = [[part.entity_type for part in one.entity] for one in described.entries]
            assert ["client-id", "user"] in pairs, "in Kafka's order, whatever the request's was"
            await ask(broker, request(([ALICE], [("request_percentage", None)])), version)
            assert found(await ask(broker, filtered(("user", EXACT, "alice")), version)) == [
                ({"user": "alice"}, {"producer_byte_rate": 1000.0})
            ]
            await ask(broker, request(([ALICE], [("producer_byte_rate", None), ("x", None)])), version)
            assert found(await ask(broker, filtered(("user", EXACT, "alice")), version)) == []

    async def after(broker):
        assert found(await ask(broker, filtered(("ip", ANY, None)))) == [
            ({"ip": "::1"}, {"connection_creation_rate": 7.0})
        ]

    on_a_broker(scene, tmp_path)
    on_a_broker(after, tmp_path)


def test_filters(tmp_path):
    entities = {
        "alice": [ALICE],
        "anybody": [ANYBODY],
        "app": [("client-id", "app")],
        "any app": [("client-id", None)],
        "alice app": [ALICE, ("client-id", "app")],
        "alice any app": [ALICE, ("client-id", None)],
    }
    expected = [
        ((), False, list(entities)),
        ((), True, []),
        ((("user", ANY, None),), False, ["alice", "anybody", "alice app", "alice any app"]),
        ((("user", ANY, None),), True, ["alice", "anybody"]),
        ((("user", EXACT, "alice"),), False, ["alice", "alice app", "alice any app"]),
        ((("user", EXACT, "alice"),), True, ["alice"]),
        ((("user", DEFAULT, None),), False, ["anybody"]),
        ((("client-id", EXACT, "app"), ("user", ANY, None)), True, ["alice app"]),
        ((("client-id", DEFAULT, None),), False, ["any app", "alice any app"]),
        ((("user", EXACT, "alice"), ("client-id", DEFAULT, None)), True, ["alice any app"]),
        ((("user", EXACT, "bob"),), False, []),
        ((("ip", ANY, None),), False, []),
    ]

    async def scene(broker):
        asked = [(parts, [("producer_byte_rate", 1.0)]) for parts in entities.values()]
        await ask(broker, request(*asked))
        names = {frozenset(parts): name for name, parts in entities.items()}
        for components, strict, wanted in expected:
            rows = found(await ask(broker, filtered(*components, strict=strict)))
            assert [names[frozenset(parts.items())] for parts, _ in rows] == wanted, components

    on_a_broker(scene, tmp_path)


@pytest.mark.parametrize(
    ("parts", "ops"),
    [
        ([], []),
        ([("nonsense", "x")], []),
        ([("user", "")], []),
        ([ALICE, ("user", "bob")], []),
        ([ALICE, ("ip", "10.0.0.1")], []),
        ([("ip", "no.such.host.example")], [("connection_creation_rate", 1.0)]),
        ([("ip", "10.0.0.1")], [("producer_byte_rate", 1.0)]),
        ([ALICE], [("connection_creation_rate", 1.0)]),
        ([ALICE], [("producer_byte_rate", 0.0)]),
        ([ALICE], [("producer_byte_rate", -1.0)]),
        ([ALICE], [("producer_byte_rate", 1.5)]),
        ([ALICE], [("producer_byte_rate", float("nan"))]),
        ([ALICE], [("request_percentage", float("nan"))]),
        ([ALICE], [("request_percentage", float("inf"))]),
        ([ALICE], [("producer_byte_rate", 1e19)]),
        ([("ip", None)], [("connection_creation_rate", 2.0**31)]),
        ([ALICE], [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)]),
        ([ALICE], [("nonsense", 1.0)]),
        ([ALICE] * 5000, [("producer_byte_rate", 1.0)]),
        ([("user", "x" * 5000)], [("producer_byte_rate", 1.0)]),
    ],
)
def test_what_is_refused_changes_nothing_of_its_entity(tmp_path, parts, ops):
    async def scene(broker):
        asked = (parts, [("consumer_byte_rate", 3.0), *ops]) if parts == [ALICE] else (parts, ops)
        before = broker.metadata.image
        bob = ([("user", "bob")], [("producer_byte_rate", 5.0)])
        refused, done = (await ask(broker, request(asked, bob))).entries
        assert (refused.error_code, done.error_code) == (ErrorCode.INVALID_REQUEST, 0)
        assert refused.error_message
        assert len(refused.error_message) < 1000 or parts[0][1] == "x" * 5000
        assert dict(broker.metadata.image.quotas) == {(("user", "bob"),): {"producer_byte_rate": 5.0}}
        assert before.quotas == {}

    on_a_broker(scene, tmp_path)


def test_an_entity_that_is_asked_for_twice_is_not_changed(tmp_path):
    async def scene(broker):
        twice = ([ALICE], [("producer_byte_rate", 1.0)]), ([ALICE], [("producer_byte_rate", 2.0)])
        (row,) = (await ask(broker, request(*twice))).entries
        assert row.error_code == ErrorCode.INVALID_REQUEST
        assert broker.metadata.image.quotas == {}

    on_a_broker(scene, tmp_path)


def test_validating_changes_nothing(tmp_path):
    async def scene(broker):
        (row,) = (
            await ask(broker, request(([ALICE], [("producer_byte_rate", 1.0)]), validate_only=True))
        ).entries
        assert row.error_code == 0
        assert broker.metadata.image.quotas == {}

    on_a_broker(scene, tmp_path)


def test_too_much_at_once_changes_nothing(tmp_path):
    async def scene(broker):
        asked = [([("user", f"u{number}")], [("producer_byte_rate", 1.0)]) for number in range(10_001)]
        answer = await ask(broker, request(*asked))
        assert {row.error_code for row in answer.entries} == {ErrorCode.POLICY_VIOLATION}
        assert len(answer.entries) == 10_001
        assert broker.metadata.image.quotas == {}

    on_a_broker(scene, tmp_path)


def test_a_filter_that_cannot_be_meant(tmp_path):
    async def scene(broker):
        for components, error_code in [
            ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
            ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
            ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
            ([("user", DEFAULT, "alice")], ErrorCode.INVALID_REQUEST),
            ([("user", ANY, "alice")], ErrorCode.INVALID_REQUEST),
            ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
            ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
            ([("client-id", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
            ([("nonsense", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ]:
            answer = await ask(broker, filtered(*components))
            assert answer.error_code == error_code, components
            assert answer.error_message
            assert answer.entries is None

    on_a_broker(scene, tmp_path)
