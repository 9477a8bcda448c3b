"""Changes over JSON: what could make one larger than was meant is refused; what is lost between is told."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.access import Access
from moldau.services.console.app import with_security_headers
from moldau.services.console.changes.audit import Audit
from moldau.services.console.changes.change import Change, Done, Field, Plan, Target, Values
from moldau.services.console.changes.groups import GroupChanges
from moldau.services.console.changes.topics import TopicChanges
from moldau.services.console.changes.undo import Undo
from moldau.services.console.pages.call import Console
from moldau.services.console.pages.forms import Forms
from moldau.services.console.pages.rendering import environment
from moldau.services.console.settings import console_configuration
from moldau.services.http.application import Application
from moldau.services.http.rights import Kind, Operation

NOTHING: Any = None
CLUSTER: Any = SimpleNamespace(facts=SimpleNamespace(known=None, problem=""), bootstrap_servers="broker:9092")


class Changed:
    """A change that remembers what it was told to do."""

    def __init__(self, *fields: Field, prefilled: Values | None = None) -> None:
        self.planned: list[Values] = []
        self.done = 0

        async def prefill(target: Target) -> Values:
            return dict(prefilled or {})

        self.change = Change(
            "change",
            "/topics/{topic}/change",
            "Change",
            "Change it.",
            Operation.WRITE,
            Kind.TOPIC,
            "topic",
            self._plan,
            self._do,
            fields,
            prefill if prefilled is not None else None,
        )

    async def _plan(self, target: Target, values: Values) -> Plan:
        self.planned.append(dict(values))
        return Plan("Change it", ["It changes."], "Change", {})

    async def _do(self, target: Target, plan: Plan) -> Done:
        self.done += 1
        return Done("It was changed.")


def client_of(change: Change) -> httpx.AsyncClient:
    """A browser or program at a console that has only this change."""
    configuration, _ = console_configuration({"moldau.console.allow.changes": "true"})
    access = Access(configuration.settings, "none", None)
    console = Console(configuration, CLUSTER, access, Audit(None), NOTHING, {change.name: change})
    app = with_security_headers(Application(Forms(console).routes(), configuration.settings, gate=access))
    transport: Any = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")


def post(change: Change, body: Any, query: str = "") -> httpx.Response:
    """What JSON that is sent to a change is answered."""

    async def ask() -> httpx.Response:
        async with client_of(change) as client:
            path = change.path.format(topic="orders", group="billing")
            return await client.post(f"/api{path}{query}", json=body)

    return asyncio.run(ask())


FIELDS = (Field("topic_of", "Topic", must_be_named=True), Field("partitions", "Partitions"))


@pytest.mark.parametrize(
    ("body", "query", "told"),
    [
        ({"topic_of": "a", "dryRun": True}, "", "dryRun"),
        ({"topic_of": "a", "dry_run": "true"}, "", "dry_run"),
        ({"topic_of": "a", "dry_run": 1}, "", "dry_run"),
        ({"topic_of": "a", "partition": "0"}, "", "partition"),
        ({"topic": "a"}, "", "topic"),
        ({}, "", "topic_of"),
        ({"topic_of": None}, "", "topic_of"),
        ({"topic_of": "a", "digest": None}, "", "digest"),
        ({"topic_of": "a"}, "?dry_run=true", "query"),
        (["topic_of"], "", "object"),
    ],
)
def test_what_is_misspelt_or_left_out_changes_nothing(body: Any, query: str, told: str) -> None:
    changed = Changed(*FIELDS)
    answer = post(changed.change, body, query)
    assert answer.status_code == 400, answer.text
    assert told in answer.json()["message"]
    assert changed.done == 0


def test_what_is_said_is_done_once_and_only_by_its_digest() -> None:
    changed = Changed(*FIELDS, prefilled={"partitions": "3"})
    shown = post(changed.change, {"topic_of": "", "dry_run": True}).json()
    assert changed.done == 0
    assert post(changed.change, {"topic_of": "", "digest": "another"}).status_code == 409
    assert changed.done == 0
    assert post(changed.change, {"topic_of": "", "digest": shown["digest"]}).status_code == 200
    assert changed.done == 1
    assert changed.planned[-1] == {"topic_of": "", "partitions": "3"}, "as the form would have been filled"


def test_a_button_that_is_pressed_twice_does_it_once() -> None:
    changed = Changed(*FIELDS)
    goes_on = asyncio.Event()

    async def slowly(target: Target, plan: Plan) -> Done:
        await goes_on.wait()
        return await changed._do(target, plan)

    change = replace(changed.change, carry_out=slowly)

    async def run() -> list[httpx.Response]:
        async with client_of(change) as client:
            path = "/topics/orders/change"
            shown = (await client.post(path, data={"step": "preview", "topic_of": "a"})).text
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', shown)) | {"step": "do"}
            first = asyncio.ensure_future(client.post(path, data=fields))
            second = asyncio.ensure_future(client.post(path, data=fields))
            await asyncio.sleep(0.05)
            goes_on.set()
            return [await first, await second, await client.post(path, data=fields)]

    answers = asyncio.run(run())
    assert [each.status_code for each in answers] == [303, 303, 303]
    assert changed.done == 1


def test_a_reset_says_of_which_topic_and_where_to() -> None:
    reset = GroupChanges(NOTHING, NOTHING).all()[0]
    for body in ({}, {"way": "earliest"}, {"topic": "orders"}, {"way": "earliest", "topics": "orders"}):
        assert post(reset, body).status_code == 400, body


# -- recreate: delete, then create


class OneTopic:
    """A cluster of one topic, three copies; whether it would be created, and what was done to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refuses: Any) -> None:
        self.done: list[str] = []
        self._refuses = refuses
        self.facts = SimpleNamespace(known=None, refreshed=self._nothing)
        at = "moldau.services.console.changes.topics"
        monkeypatch.setattr(f"{at}.create_topic", self._create)
        monkeypatch.setattr(f"{at}.delete_topic", lambda cluster, name: self.done.append(f"delete {name}"))
        monkeypatch.setattr(f"{at}.describe_configs", lambda *_, **__: {})

    async def topic(self, name: str) -> Any:
        return SimpleNamespace(
            name=name, partitions=(1, 2), replication_factor=3, records=7, is_internal=False
        )

    async def call(self, work: Any) -> Any:
        return work(None)

    async def _nothing(self) -> None:
        pass

    def _create(self, cluster: Any, name: str, *, validate_only: bool = False, **_: Any) -> None:
        if self._refuses(validate_only):
            raise KafkaProblem(ErrorCode.INVALID_REPLICATION_FACTOR, "There are 2 brokers.")
        if not validate_only:
            self.done.append(f"create {name}")


def recreate(cluster: Any) -> httpx.Response:
    (change,) = (each for each in TopicChanges(cluster).all() if each.name == "recreate-topic")
    return post(change, {})


def test_what_could_not_be_created_again_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = OneTopic(monkeypatch, lambda validate_only: True)
    answer = recreate(cluster)
    assert answer.status_code == 422, answer.text
    assert "not deleted: There are 2 brokers." in answer.json()["message"]
    assert cluster.done == []


def test_a_topic_that_was_only_deleted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = OneTopic(monkeypatch, lambda validate_only: not validate_only)
    answer = recreate(cluster)
    assert answer.status_code == 502, answer.text
    assert "was deleted, but not created again" in answer.json()["message"]
    assert "2 partitions, 3 copies" in answer.json()["message"]
    assert cluster.done == ["delete orders"]
    cluster = OneTopic(monkeypatch, lambda validate_only: False)
    assert recreate(cluster).status_code == 200
    assert cluster.done == ["delete orders", "create orders"]


def test_what_was_deleted_can_be_brought_back_from_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that says it is done stands on the list of groups then, not on a page of the group."""
    at = "moldau.services.console.changes.groups"
    monkeypatch.setattr(
        f"{at}.committed_offsets", lambda *_: {("t", 0): SimpleNamespace(is_ledger=False, offset=3)}
    )
    monkeypatch.setattr(f"{at}.describe_group", lambda *_: None)
    monkeypatch.setattr(f"{at}.delete_groups", lambda *_: {})
    cluster: Any = OneTopic(monkeypatch, lambda _: False)
    cluster.who = lambda: "me"
    (change,) = (each for each in GroupChanges(cluster, Undo(None)).all() if each.name == "delete-group")

    async def run() -> Done:
        return await change.carry_out({"group": "a/b"}, await change.plan({"group": "a/b"}, {}))

    done = asyncio.run(run())
    assert (done.link, done.undo_at) == ("/groups", "/groups/a%2Fb/undo")
    page = environment().from_string('{% extends "base.html" %}')
    around = {"bare": True, "sections": (), "cluster_name": "c", "stale": "", "url": "/groups"}
    assert 'action="/groups/a%2Fb/undo"' in page.render(done=done, **around)
