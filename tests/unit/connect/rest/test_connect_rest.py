"""The REST interface row by row: codes, bodies and messages as Kafka Connect's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from threading import current_thread, main_thread
from typing import Any

import pytest
from local_interface import Interface, interface
from memory_herder import SINK, SOURCE, MemoryHerder, Served, unhealthy

from moldau.services.connect.herder.interface import OffsetRow
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.validation.infos import Infos
from moldau.services.connect.validation.overrides import OverridePolicy
from moldau.services.http.rights import Rights, parse_rights


@pytest.fixture
def served() -> Served:
    return Served(MemoryHerder())


def test_the_root_says_who_this_is(served: Served) -> None:
    assert served.ask("GET", "/").json() == {
        "version": "4.3.1",
        "commit": "unknown",
        "kafka_cluster_id": "abc",
    }


@pytest.mark.parametrize(("status", "code"), [("healthy", 200), ("starting", 503), ("unhealthy", 500)])
def test_health(served: Served, status: str, code: int) -> None:
    unhealthy(served.herder, status)
    answer = served.ask("GET", "/health")
    assert (answer.status_code, answer.json()["status"], answer.json()["failed"]) == (
        code,
        status,
        {"c-0": "it broke"},
    )


def test_a_connector_is_made_once(served: Served) -> None:
    answer = served.create("c")
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/connectors/c"
    assert answer.json() == {
        "name": "c",
        "config": {"connector.class": SINK, "topics": "t", "name": "c"},
        "tasks": [{"connector": "c", "task": 0}],
        "type": "sink",
    }
    again = served.create("c")
    assert (again.status_code, again.json()) == (
        409,
        {"error_code": 409, "message": "Connector c already exists"},
    )
    assert served.ask("GET", "/connectors").json() == ["c"]
    assert served.ask("DELETE", "/connectors/c").status_code == 204
    assert served.ask("GET", "/connectors/c").json() == {
        "error_code": 404,
        "message": "Connector c not found",
    }


def test_expansions(served: Served) -> None:
    served.create("c")
    found = served.ask("GET", "/connectors?expand=info&expand=status").json()
    assert found["c"]["info"]["type"] == "sink"
    assert found["c"]["status"]["connector"] == {"state": "RUNNING", "worker_id": "w:1"}
    assert list(served.ask("GET", "/connectors?expand=info").json()["c"]) == ["info"]


def test_an_initial_state(served: Served) -> None:
    config = {"connector.class": SINK, "topics": "t"}
    body = {"name": "c", "config": config, "initial_state": "STOPPED"}
    assert served.ask("POST", "/connectors", body).status_code == 201
    assert served.herder.targets == {"c": State.STOPPED}
    assert served.ask("POST", "/connectors", {**body, "initial_state": "ASLEEP"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "not a JSON object"),
        ({"name": "c"}, "config is not a JSON object"),
        ({"config": {}}, "no name"),
        ({"name": "c", "config": {"name": "d"}}, "doesn't match connector name in the URL"),
        ({"name": "c", "config": {"x": {}}}, "the value of x is not a text"),
        ({"name": "c", "config": {}, "state": 1}, "Unrecognized field"),
        ({"name": "c", "config": {"topics": "t"}}, "contains no connector type"),
        ({"name": "c", "config": {"connector.class": "no.Such"}}, "no.Such is not known as a source or sink"),
    ],
)
def test_what_cannot_be_made_is_told(served: Served, body: object, message: str) -> None:
    answer = served.ask("POST", "/connectors", body)
    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert served.herder.configs == {}


def test_a_wrong_configuration_is_refused_with_all_that_is_wrong(served: Served) -> None:
    answer = served.create("c", **{"tasks.max": "none", "errors.tolerance": "some"})
    message = answer.json()["message"]
    assert answer.status_code == 400
    assert message.startswith("Connector configuration is invalid and contains the following 2 error(s):\n")
    assert "Invalid value none for configuration tasks.max: Not a number of type INT" in message
    assert message.endswith("`/connector-plugins/{connectorType}/config/validate`")


def test_put_makes_or_replaces_and_patch_changes(served: Served) -> None:
    config = {"connector.class": SINK, "topics": "t"}
    assert served.ask("PUT", "/connectors/c/config", config).status_code == 201
    assert served.ask("PUT", "/connectors/c/config", {**config, "tasks.max": 2}).status_code == 200
    assert served.herder.configs["c"]["tasks.max"] == "2"
    patched = served.ask("PATCH", "/connectors/c/config", {"tasks.max": None, "topics": "u"})
    assert patched.json()["config"] == {"connector.class": SINK, "topics": "u", "name": "c"}
    assert served.ask("PATCH", "/connectors/c/config", {"topics": None}).status_code == 400
    assert served.ask("PATCH", "/connectors/d/config", {}).status_code == 404
    assert served.ask("GET", "/connectors/c/config").json() == served.herder.configs["c"]
    assert served.ask("GET", "/connectors/c/tasks").json()[0]["id"] == {"connector": "c", "task": 0}


def test_states(served: Served) -> None:
    served.create("c")
    for verb, state in (("pause", State.PAUSED), ("stop", State.STOPPED), ("resume", State.RUNNING)):
        assert served.ask("PUT", f"/connectors/c/{verb}").status_code == 202
        assert served.herder.targets["c"] is state
    status = served.ask("GET", "/connectors/c/status").json()
    assert status["tasks"] == [
        {
            "id": 0,
            "state": "FAILED",
            "worker_id": "w:1",
            "trace": "it broke",
            "version": "1",
            "engine": "local",
            "restarts_at_ms": 1000,
        }
    ]
    assert served.ask("GET", "/connectors/c/tasks/0/status").json()["state"] == "FAILED"
    assert served.ask("GET", "/connectors/c/tasks/7/status").status_code == 404
    assert served.ask("GET", "/connectors/c/tasks/x/status").status_code == 404


def test_restarts(served: Served) -> None:
    served.create("c")
    assert served.ask("POST", "/connectors/c/restart").status_code == 204
    answer = served.ask("POST", "/connectors/c/restart?includeTasks=true&onlyFailed=true")
    assert (answer.status_code, answer.json()["name"]) == (202, "c")
    assert served.ask("POST", "/connectors/c/tasks/0/restart").status_code == 204
    assert served.herder.asked == [("restart", "c"), ("restart", True, True), ("restart", TaskId("c", 0))]


def test_offsets(served: Served) -> None:
    served.create("c")
    rows = {
        "offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]
    }
    refused = served.ask("PATCH", "/connectors/c/offsets", rows)
    assert (refused.status_code, "STOPPED" in refused.json()["message"]) == (400, True)
    served.ask("PUT", "/connectors/c/stop")
    assert "altered successfully" in served.ask("PATCH", "/connectors/c/offsets", rows).json()["message"]
    assert served.ask("GET", "/connectors/c/offsets").json() == rows
    assert served.herder.rows["c"] == [
        OffsetRow({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})
    ]
    assert served.ask("DELETE", "/connectors/c/offsets").status_code == 200
    assert served.ask("GET", "/connectors/c/offsets").json() == {"offsets": []}


@pytest.mark.parametrize(
    "body", [{}, {"offsets": []}, {"offsets": [{}]}, {"offsets": [{"partition": {}, "offset": 5}]}, []]
)
def test_offsets_that_are_none_change_nothing(served: Served, body: object) -> None:
    served.create("c")
    served.herder.targets["c"] = State.STOPPED
    assert served.ask("PATCH", "/connectors/c/offsets", body).status_code == 400
    assert served.herder.rows == {}


def test_topics(served: Served) -> None:
    served.create("c")
    assert served.ask("GET", "/connectors/c/topics").json() == {"c": {"topics": ["a", "b"]}}
    refused = served.ask("PUT", "/connectors/c/topics/reset")
    assert (refused.status_code, refused.json()["message"]) == (403, "Topic tracking reset is disabled.")


def test_plugins(served: Served) -> None:
    found = served.ask("GET", "/connector-plugins").json()
    assert {"class": "HttpSink", "type": "sink"}.items() <= next(
        x for x in found if x["class"] == "HttpSink"
    ).items()
    assert {each["type"] for each in found} == {"sink", "source"}
    every = served.ask("GET", "/connector-plugins?connectorsOnly=false").json()
    assert "converter" in {each["type"] for each in every}
    rows = served.ask("GET", "/connector-plugins/HttpSink/config").json()
    assert {"name", "topics", "errors.tolerance", "http.api.url"} <= {row["name"] for row in rows}
    assert served.ask("GET", "/connector-plugins/Nothing/config").status_code == 404


def validate(served: Served, plugin: str, **config: str) -> dict[str, dict[str, object]]:
    answer = served.ask("PUT", f"/connector-plugins/{plugin}/config/validate", config)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["error_count"] == sum(len(each["value"]["errors"]) for each in found["configs"])
    return {
        each["value"]["name"]: each["value"] | {"group": each["definition"]["group"]}
        for each in found["configs"]
    }


def test_validate_has_a_row_for_everything_and_errors_where_they_belong(served: Served) -> None:
    values = validate(
        served,
        "LittleSource",
        **{
            "connector.class": SOURCE,
            "name": "c",
            "mode": "middling",
            "transforms": "a",
            "transforms.a.type": "no.Such",
            "transforms.a.predicate": "p",
            "exactly.once.support": "required",
        },
    )
    assert values["url"]["errors"] == ['Missing required configuration "url" which has no default value.']
    assert values["mode"]["recommended_values"] == ["fast", "slow"]
    assert "must be one of" in str(values["mode"]["errors"])
    assert "no.Such is not known" in str(values["transforms.a.type"]["errors"])
    assert values["transforms.a.type"]["group"] == "Transforms: a"
    assert "Predicate not found: 'p'" in str(values["transforms.a.predicate"]["errors"])
    assert "does not support exactly-once semantics" in str(values["exactly.once.support"]["errors"])


def test_secrets_are_not_shown_and_references_stay_references(served: Served) -> None:
    given = {"connector.class": SOURCE, "name": "c", "url": "${secret}", "secret": "hunter2"}
    answer = served.ask("PUT", "/connector-plugins/LittleSource/config/validate", given)
    values = {each["value"]["name"]: each["value"]["value"] for each in answer.json()["configs"]}
    assert (values["url"], values["secret"]) == ("${secret}", "[hidden]")
    assert "hunter2" not in answer.text
    wrong = served.ask(
        "PUT", "/connector-plugins/LittleSource/config/validate", {**given, "mode": "${secret}"}
    )
    assert "hunter2" not in wrong.text
    for name in ("transforms.a.type", "transforms.a.predicate", "value.converter", "connector.class", "name"):
        more = {**given, "transforms": "a", name: "a${secret}\n"}
        told = served.ask("PUT", "/connector-plugins/LittleSource/config/validate", more)
        assert "hunter2" not in told.text, name
        refused = served.ask("PUT", "/connectors/c/config", {**more, "mode": "x"})
        assert (refused.status_code, "hunter2" in refused.text) == (400, False), name


def test_a_connectors_own_check(served: Served) -> None:
    right = {"connector.class": SOURCE, "name": "c"}
    assert validate(served, "LittleSource", **right, url="dead")["url"]["errors"] == ["nobody answers"]
    broken = validate(served, "LittleSource", **right, url="breaks")
    assert "could not check its settings: a bug" in str(broken["connector.class"]["errors"])


@pytest.mark.parametrize(
    ("config", "name", "message"),
    [
        ({}, "topics", "Must configure one of topics or topics.regex"),
        ({"topics": "a", "topics.regex": "b"}, "topics.regex", "mutually exclusive"),
        ({"topics.regex": "("}, "topics.regex", "Invalid value ("),
        (
            {"topics": "a", "errors.deadletterqueue.topic.name": "a"},
            "errors.deadletterqueue.topic.name",
            "may not be included in the list",
        ),
        (
            {"topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"},
            "errors.deadletterqueue.topic.name",
            "in the regex",
        ),
    ],
)
def test_contradictions_of_a_sink(served: Served, config: dict[str, str], name: str, message: str) -> None:
    values = validate(served, "LittleSink", **{"connector.class": SINK, "name": "c", **config})
    assert message in str(values[name]["errors"])


def test_a_plugin_and_a_class_that_differ(served: Served) -> None:
    answer = served.ask("PUT", "/connector-plugins/HttpSink/config/validate", {"connector.class": SINK})
    assert (answer.status_code, "does not match request type HttpSink" in answer.text) == (400, True)
    assert served.ask("PUT", "/connector-plugins/HttpSink/config/validate", {}).status_code == 400
    other_name = {"connector.class": "io.confluent.connect.http.HttpSinkConnector"}
    assert served.ask("PUT", "/connector-plugins/HttpSink/config/validate", other_name).status_code == 200


def test_overrides_are_the_policys() -> None:
    served = Served(MemoryHerder(), policy=OverridePolicy("Principal"))
    refused = served.create("c", **{"consumer.override.fetch.max.bytes": "1"})
    assert "The 'Principal' policy does not allow 'fetch.max.bytes'" in refused.json()["message"]
    assert served.create("c", **{"consumer.override.sasl.mechanism": "PLAIN"}).status_code == 201


@pytest.fixture
def leader() -> Iterator[Interface]:
    with interface() as leader:
        yield leader


def test_what_only_the_leader_may_do_is_sent_on_once(served: Served, leader: Interface) -> None:
    leader.answer = lambda asked: (201, {"Content-Type": "application/json"}, b'{"name":"c"}')
    served.herder.leader_url = leader.url
    answer = served.create("c")
    assert (answer.status_code, answer.json()) == (201, {"name": "c"})
    (asked,) = leader.asked
    assert (asked.method, asked.path) == ("POST", "/connectors?forward=true")
    body = {"name": "c", "config": {"connector.class": SINK, "topics": "t"}}
    served.ask("POST", "/connectors?forward=true", body)
    assert leader.asked[1].path == "/connectors?forward=false"
    last = served.ask("POST", "/connectors?forward=false", body)
    assert (last.status_code, len(leader.asked)) == (409, 2)
    served.herder.leader_url = ""
    assert "no known leader URL" in served.create("c").json()["message"]


def test_requests_between_workers_are_handed_over_with_their_signature(served: Served) -> None:
    headers = {"X-Connect-Authorization": "AAEC", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
    assert served.ask("POST", "/connectors/c/tasks", [{"a": "b"}], headers).status_code == 204
    name, configs, signature = served.herder.asked[0]
    assert (name, configs, signature.body, signature.value) == (
        "c",
        [{"a": "b"}],
        b'[{"a":"b"}]',
        b"\x00\x01\x02",
    )
    assert (
        served.ask("PUT", "/connectors/c/fence", headers={"X-Connect-Authorization": "?"}).status_code == 204
    )
    assert served.herder.asked[1][1].value is None


def test_loggers(served: Served) -> None:
    name = "moldau.connect.test_logger"
    logging.getLogger(name).setLevel(logging.INFO)
    assert served.ask("GET", f"/admin/loggers/{name}").json()["level"] == "INFO"
    assert served.ask("PUT", f"/admin/loggers/{name}", {"level": "debug"}).json() == [name]
    assert logging.getLogger(name).level == logging.DEBUG
    assert name in served.ask("GET", "/admin/loggers").json()
    assert served.ask("PUT", f"/admin/loggers/{name}", {"level": "LOUD"}).status_code == 404
    assert served.ask("PUT", f"/admin/loggers/{name}", {}).status_code == 400
    assert served.ask("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "WARN"}).status_code == 204
    assert served.herder.asked == [(name, "WARN")]
    assert served.ask("GET", "/admin/loggers/no.such.logger").status_code == 404


def test_rights() -> None:
    lines = "ANONYMOUS read connector:a*\nANONYMOUS write connector:ab"
    served = Served(MemoryHerder(), Rights(parse_rights(lines, "rights")))
    for name in ("ab", "ac", "b"):
        served.herder.configs[name] = {"connector.class": SINK, "name": name}
        served.herder.targets[name] = State.RUNNING
    assert served.ask("GET", "/connectors").json() == ["ab", "ac"]
    assert served.ask("GET", "/connectors/b").status_code == 403
    assert served.ask("PUT", "/connectors/ab/pause").status_code == 202
    assert served.ask("PUT", "/connectors/ac/pause").status_code == 403
    assert served.ask("DELETE", "/connectors/ab").status_code == 403
    assert served.ask("GET", "/admin/loggers").status_code == 403
    assert sorted(served.herder.configs) == ["ab", "ac", "b"]
    # Checking fills in secrets and asks other systems; requests of other workers may come from anybody.
    for name, allowed in (("ab", True), ("ac", False), ("", False)):
        given = {"connector.class": SINK, "topics": "t", "name": name}
        answer = served.ask("PUT", "/connector-plugins/LittleSink/config/validate", given)
        assert answer.status_code == (200 if allowed else 403)
    for name, status in (("ab", 204), ("ac", 403)):
        assert served.ask("POST", f"/connectors/{name}/tasks", [{"x": "1"}]).status_code == status
        assert served.ask("PUT", f"/connectors/{name}/fence").status_code == status


def test_names_that_no_connector_may_have(served: Served) -> None:
    for name in ("a\nb", "a\x7f", "n" * 1025, "ä" * 513):
        answer = served.create(name)
        assert answer.status_code == 400
        assert "name may not" in answer.json()["message"]
    assert len(served.create("n" * 100_000).text) < 10_000
    for name in ("..", "a/b", "ä b", "n" * 1024):
        assert served.create(name).status_code == 201


def test_groups_of_topics_that_a_source_creates(served: Served) -> None:
    given = {"connector.class": SOURCE, "name": "c", "url": "x"}
    assert not [
        name for name in validate(served, "LittleSource", **given) if name.startswith("topic.creation.d")
    ]
    values = validate(
        served,
        "LittleSource",
        **given,
        **{"topic.creation.groups": "logs", "topic.creation.logs.partitions": "0"},
    )
    assert "no default value" in str(values["topic.creation.default.partitions"]["errors"])
    assert "no default value" in str(values["topic.creation.logs.include"]["errors"])
    assert "at least 1" in str(values["topic.creation.logs.partitions"]["errors"])


def test_a_large_answer_is_made_beside_the_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    as_json = Infos.as_json

    def noted(self: Infos) -> dict[str, Any]:
        threads.append(current_thread() is main_thread())
        return as_json(self)

    monkeypatch.setattr(Infos, "as_json", noted)
    aliases = ",".join(f"a{number}" for number in range(500))
    given = {"connector.class": SINK, "name": "c", "topics": "t", "transforms": aliases}
    answer = served.ask("PUT", "/connector-plugins/LittleSink/config/validate", given).json()
    assert len(set(answer["groups"])) == len(answer["groups"]) > 500
    assert threads == [False]


def test_health_and_metrics_name_connectors_to_those_who_may_see_them() -> None:
    served = Served(MemoryHerder(), Rights(parse_rights("ANONYMOUS read connector:a*", "rights")))
    served.herder.worker = replace(served.herder.worker, failed={"ab-0": "it broke", "b-0": "secret place"})
    assert served.ask("GET", "/health").json()["failed"] == {"ab-0": "it broke"}
    assert served.ask("GET", "/metrics").text.count("names_seen{") == 1
    assert 'names_seen{connector="ab"}' in served.ask("GET", "/metrics").text


def test_a_chain_that_cannot_be_made_is_named(served: Served) -> None:
    given = {
        "connector.class": SINK,
        "name": "c",
        "topics": "t",
        "transforms": "a,b",
        "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.a.regex": "(",
        "transforms.a.replacement": "x",
        "transforms.b.type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
        "transforms.b.target.type": "string",
    }
    answer = served.ask("PUT", "/connector-plugins/LittleSink/config/validate", given).json()
    wrong = {
        each["value"]["name"]: each["value"]["errors"]
        for each in answer["configs"]
        if each["value"]["errors"]
    }
    assert {name.rpartition(".")[0] for name in wrong} == {"transforms.a", "transforms.b"}
    assert answer["error_count"] == sum(map(len, wrong.values()))
