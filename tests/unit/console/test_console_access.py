"""Who may do what: sessions, wrong passwords, requests of other sites, rights, settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.common.settings.rows import SettingError
from moldau.services.console.access import (
    ATTEMPTS_MAX,
    COOKIE,
    Access,
    Attempts,
    Sessions,
    check_origin,
    users_check,
    users_of,
)
from moldau.services.console.changes.change import Plan
from moldau.services.console.changes.undo import KEPT_MS, Undo
from moldau.services.console.pages.login import own_path
from moldau.services.console.settings import ConsoleConfiguration, console_configuration
from moldau.services.http.context import ANONYMOUS, Principal
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation


def configured(**texts: str) -> ConsoleConfiguration:
    found, warnings = console_configuration({name.replace("_", "."): text for name, text in texts.items()})
    assert warnings == []
    return found


def request(method: str = "POST", **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(method=method, headers={"host": "console:8080", **given}, cookies={}, scope={})


# -- settings


def test_loopback_needs_no_login_and_is_read_only() -> None:
    found = configured()
    assert found.login == "none"
    access = Access(found.settings, found.login, None)
    assert access.may(ANONYMOUS, Operation.READ, Kind.TOPIC, "t")
    assert not access.may(ANONYMOUS, Operation.DELETE, Kind.TOPIC, "t")
    with pytest.raises(HttpProblem, match="--allow-changes"):
        access.check(ANONYMOUS, Operation.DELETE, Kind.TOPIC, "t")
    allowed = Access(configured(moldau_console_allow_changes="true").settings, "none", None)
    assert allowed.may(ANONYMOUS, Operation.DELETE, Kind.TOPIC, "t")


@pytest.mark.parametrize("where", ["http://0.0.0.0:80", "https://10.0.0.1:443", "http://[::]:80"])
def test_any_other_address_asks_for_a_login(where: str) -> None:
    assert configured(listeners=where).login == "scram"
    with pytest.raises(SettingError, match="let everybody in"):
        configured(listeners=where, moldau_console_login="none")


def test_a_file_of_users_is_enough(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret, admin\n")
    assert configured(moldau_http_users_file=str(users)).login == "users"
    with pytest.raises(SettingError, match=r"users\.file"):
        configured(moldau_console_login="users")
    with pytest.raises(SettingError, match="no mask"):
        configured(moldau_console_mask="orders")


# -- logins


def test_a_session_ends() -> None:
    now = [0.0]
    sessions = Sessions(10.0, lambda: now[0])
    secret = sessions.begin(Principal("alice"))
    other = sessions.begin(Principal("bob"))
    assert sessions.find(secret) == Principal("alice")
    assert sessions.find("x") is None
    assert sessions.find(None) is None
    sessions.end(other)
    assert sessions.find(other) is None
    now[0] = 10.0
    assert sessions.find(secret) is None


def test_wrong_passwords_are_slowed() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(ATTEMPTS_MAX):
        attempts.check("name:alice")
        attempts.wrong("name:alice", "host:1")
    with pytest.raises(HttpProblem, match="Too many") as refused:
        attempts.check("name:alice")
    assert refused.value.status == 429
    attempts.check("name:bob")
    now[0] = 61.0
    attempts.check("name:alice")


def test_logins_of_a_file(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret, admin\n")
    found = configured(moldau_http_users_file=str(users), moldau_console_editors="role:admin")

    async def run() -> None:
        access = Access(found.settings, found.login, users_check(str(users)))
        alice = await access.log_in(request(), "alice", "secret")
        assert access.may_change(alice)
        assert not access.may_change(Principal("bob"))
        for name, password in (("alice", "wrong"), ("alice", ""), ("", "secret"), ("a" * 300, "secret")):
            with pytest.raises(HttpProblem) as refused:
                await access.log_in(request(), name, password)
            assert refused.value.status == 401
        with pytest.raises(HttpProblem) as refused:
            await access.principal_of(request(authorization="Basic bm90"))
        assert refused.value.status == 401

    asyncio.run(run())


def test_a_session_ends_with_its_user_and_has_the_roles_of_now(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret, admin\n")
    found = configured(moldau_http_users_file=str(users))
    now = [Principal("alice", frozenset({"admin"}))]

    async def run() -> None:
        check, current = users_of(str(users))
        assert current("alice") == now[0]
        assert current("bob") is None
        people: dict[str, Principal] = {"alice": now[0]}
        access = Access(found.settings, found.login, check, current=people.get)
        asked = request("GET")
        asked.scope["path"] = "/api/topics"
        asked.cookies[COOKIE] = access.sessions.begin(await access.log_in(request(), "alice", "secret"))
        assert await access.principal_of(asked) == now[0]
        people["alice"] = Principal("alice")
        assert (await access.principal_of(asked)).roles == frozenset()
        del people["alice"]
        with pytest.raises(HttpProblem) as refused:
            await access.principal_of(asked)
        assert refused.value.status == 401

    asyncio.run(run())


def test_guesses_sent_together_are_slowed_too() -> None:
    tried: list[str] = []

    async def check(name: str, password: str) -> Principal | None:
        tried.append(password)
        await asyncio.sleep(0)
        return None

    async def run() -> list[int]:
        access = Access(configured(listeners="http://0.0.0.0:80").settings, "scram", check)
        guesses = (access.log_in(request(), "alice", f"guess {number}") for number in range(60))
        found = await asyncio.gather(*guesses, return_exceptions=True)
        return [each.status for each in found if isinstance(each, HttpProblem)]

    statuses = asyncio.run(run())
    assert len(tried) < ATTEMPTS_MAX + 4
    assert statuses.count(429) == 60 - len(tried)


def test_a_long_name_is_counted_in_little_memory() -> None:
    async def run() -> None:
        access = Access(configured(listeners="http://0.0.0.0:80").settings, "scram", None)
        with pytest.raises(HttpProblem, match="nobody"):
            await access.log_in(request(), "a" * 1_000_000, "x")
        assert max(map(len, access._attempts._counts)) < 1_000

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/metrics", "/health", "/health/ready"])
def test_a_browser_without_a_login_learns_no_figures(path: str) -> None:
    asked = request("GET", accept="text/html")
    asked.scope["path"] = path

    async def run() -> None:
        access = Access(configured(listeners="http://0.0.0.0:80").settings, "scram", None)
        with pytest.raises(HttpProblem) as refused:
            await access.principal_of(asked)
        assert refused.value.status == 401

    asyncio.run(run())


def test_rights_limit_what_is_seen_and_done(tmp_path: Path) -> None:
    users, rights = tmp_path / "users", tmp_path / "rights"
    users.write_text("alice: secret\n")
    rights.write_text("alice read,write topic:orders-*\n")
    found = configured(moldau_http_users_file=str(users), moldau_http_rights_file=str(rights))
    access = Access(found.settings, found.login, None)
    alice = Principal("alice")
    assert access.may(alice, Operation.WRITE, Kind.TOPIC, "orders-eu")
    assert not access.may(alice, Operation.DELETE, Kind.TOPIC, "orders-eu")
    assert not access.may(alice, Operation.READ, Kind.TOPIC, "payments")
    seen = access.readable(alice, Kind.TOPIC)
    assert seen is not None
    assert [each for each in ("orders-1", "pay") if seen(each)] == ["orders-1"]
    with pytest.raises(HttpProblem) as refused:
        access.check(alice, Operation.READ, Kind.TOPIC, "payments")
    assert refused.value.status == 403


# -- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://console:9090"},
        {"origin": "http://console:8080.evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
    ],
)
def test_requests_of_other_sites_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(HttpProblem, match="another site"):
        check_origin(request(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://console:8080"},
        {"origin": "https://Console:8080"},
        {"sec_fetch_site": "same-origin"},
    ],
)
def test_requests_of_this_site_and_of_programs_are_taken(headers: dict[str, str]) -> None:
    check_origin(request(**headers))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("/topics?q=a", "/topics?q=a"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("http://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\nb", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_this_site_only(wanted: str, found: str) -> None:
    assert own_path(wanted) == found


# -- undo


def test_what_can_be_undone_outlives_the_console(tmp_path: Path) -> None:
    now = [1000]
    undo = Undo(str(tmp_path / "new"), lambda: now[0])
    kept = undo.keep("g", "alice", "Reset", {("a b", 0): 7, ("ž", 3): 2**60}, (("t", 1),))
    again = Undo(str(tmp_path / "new"), lambda: now[0])
    assert again.find(kept.id) == kept
    assert [each.id for each in again.of_group("g")] == [kept.id]
    assert again.of_group("other") == []
    now[0] += KEPT_MS + 1
    assert again.find(kept.id) is None
    assert Undo(str(tmp_path / "new"), lambda: now[0]).of_group("g") == []


def test_a_damaged_file_of_undo_loses_only_its_line(tmp_path: Path) -> None:
    undo = Undo(str(tmp_path))
    kept = undo.keep("g", "", "Reset", {("t", 0): 7})
    (file,) = tmp_path.iterdir()
    file.write_text("{half a line\n" + file.read_text() + "[]\n")
    assert Undo(str(tmp_path)).find(kept.id) == kept


# -- plans


def test_a_plan_is_the_same_while_it_does_the_same() -> None:
    shown = Plan("Delete t", ["about 100 records are deleted"], "Delete", {"name": "t"})
    later = Plan("Delete t", ["about 120 records are deleted"], "Delete", {"name": "t"})
    assert shown.digest == later.digest
    assert Plan("Delete t", [], "Delete", {"name": "u"}).digest != shown.digest
    to_end = [Plan("Reset g", [], "Reset", {"offsets": [end]}, identity=["latest", 0]) for end in (10, 20)]
    assert to_end[0].digest == to_end[1].digest
    assert (
        Plan("Reset g", [], "Reset", {"offsets": [10]}, identity=["earliest", 0]).digest != to_end[0].digest
    )
