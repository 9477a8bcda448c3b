"""The pages of the second port: status codes, JSON and text."""

import json

import pytest
from monitor_world import World

from moldau.broker.monitor.health import Phase
from moldau.broker.monitor.page import Ask, Page
from moldau.broker.monitor.pages import DESCRIPTIONS


@pytest.fixture
def world() -> World:
    return World()


def page(world: World, path: str, **headers: str) -> Page:
    target, _, query = path.partition("?")
    pairs = dict([query.split("=")]) if query else {}
    return world.monitor.routes()[target](Ask(target, pairs, headers))


def test_the_overview_describes_every_page(world: World) -> None:
    assert set(world.monitor.routes()) == set(DESCRIPTIONS)
    body = page(world, "/").content
    assert isinstance(body, bytes)
    for path in DESCRIPTIONS:
        assert f'href="{path}"'.encode() in body


def test_live_and_ready(world: World) -> None:
    assert page(world, "/health/live").status == 200
    assert page(world, "/health/ready").status == 200
    world.health.phase = Phase.RECOVERY
    world.manager.startup.progress.total = 4
    assert page(world, "/health/live").status == 200
    answer = page(world, "/health/ready")
    assert answer.status == 503
    assert b"recovery: 0 of 4 logs are checked" in answer.content
    as_json = page(world, "/health/ready", accept="application/json")
    assert json.loads(as_json.content)["causes"][0]["name"] == "recovery"


def test_health_gives_verdict_causes_remedies_and_facts(world: World) -> None:
    world.manager.full_dirs = ["/data"]
    answer = page(world, "/health")
    assert answer.status == 503
    document = json.loads(answer.content)
    assert (document["verdict"], document["ready"], document["state"]) == ("failing", True, "running")
    assert document["causes"][0]["name"] == "log-dir-full"
    assert "Free space" in document["causes"][0]["remedy"]
    assert document["cluster_id"] == "cluster"
    assert document["listeners"] == "PLAINTEXT://localhost:9092"


def test_degraded_is_no_error_status(world: World) -> None:
    world.min_free_ratio = 1.1
    answer = page(world, "/health?format=text")
    assert answer.status == 200
    assert answer.content.startswith(b"Verdict: degraded\n")
    assert b"warn: disk-nearly-full: / has" in answer.content
    assert page(world, "/health", accept="text/html").content_type.startswith("text/plain")


def test_facts_for_people_are_words(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {
        "recovery": {"done": 3, "total": 4, "current": ""},
        "compaction": {
            "running": [],
            "backlog": {"partitions": 1, "bytes": 20},
            "uncleanable": [{"partition": "a-0", "cause": "full"}, {"partition": "b-1", "cause": "torn"}],
            "last": None,
        },
        "controller": True,
    }
    monkeypatch.setattr(world.monitor.health, "facts", lambda: facts)
    lines = page(world, "/health?format=text").content.decode().splitlines()
    assert lines[-3:] == [
        "recovery:         done 3, total 4",
        "compaction:       running none, backlog (partitions 1, bytes 20), "
        "uncleanable partition a-0, cause full; partition b-1, cause torn, last none",
        "controller:       yes",
    ]
