"""`moldau quotas` against a broker: what it sets, shows, explains and removes, and what it says when it is
called wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from moldau.tools.main import main

Run = Callable[..., str]


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `moldau quotas ...`; gives what it printed, on standard error if it failed with `code`."""

    def run_(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["quotas", *words, "-b", bootstrap]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return run_


def test_quotas_are_set_shown_explained_and_removed(run: Run) -> None:
    run("add", "--user", "q-alice", "--producer-byte-rate", "1000", "--request-percentage", "12.5")
    said = run("add", "--user", "q-alice", "--client-id", "q-app", "--producer-byte-rate", "500")
    assert said == "Set producer_byte_rate=500 for user q-alice, client-id q-app.\n"
    run("add", "--ip", "192.0.2.1", "--connection-creation-rate", "7")
    try:
        rows = json.loads(run("list", "--json"))
        assert {"entity": {"ip": "192.0.2.1"}, "quotas": {"connection_creation_rate": 7}} in rows
        of_alice = json.loads(run("list", "--user", "q-alice", "--json"))
        assert of_alice == [
            {
                "entity": {"user": "q-alice"},
                "quotas": {"producer_byte_rate": 1000, "request_percentage": 12.5},
            },
            {
                "entity": {"user": "q-alice", "client-id": "q-app"},
                "quotas": {"producer_byte_rate": 500},
            },
        ]
        lines = run("list", "--user", "q-alice").splitlines()
        assert lines[0].split() == ["FOR", "producer_byte_rate", "request_percentage"]
        assert lines[1].split() == ["user", "q-alice", "1000", "12.5"]
        told = {
            row["quota"]: row
            for row in json.loads(run("explain", "--user", "q-alice", "--client-id", "q-app", "--json"))
        }
        assert told["producer_byte_rate"]["value"] == 500
        assert told["producer_byte_rate"]["from"] == "user q-alice, client-id q-app"
        assert told["request_percentage"]["shared_by"] == "all connections of q-alice"
        assert json.loads(run("explain", "--user", "q-bob", "--json")) == []
        run("remove", "request-percentage", "--user", "q-alice")
        assert "request_percentage" not in run("list", "--user", "q-alice")
        assert "there is no request_percentage" in run(
            "remove", "request_percentage", "--user", "q-alice", code=1
        )
    finally:
        run("remove", "--user", "q-alice")
        run("remove", "--user", "q-alice", "--client-id", "q-app")
        run("remove", "--ip", "192.0.2.1")
    assert json.loads(run("list", "--user", "q-alice", "--json")) == []
    assert "there is no quota for user q-alice" in run("remove", "--user", "q-alice", code=1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["add", "--producer-byte-rate", "1"], "say whose quota"),
        (["add", "--user", "a"], "no quota is given"),
        (["add", "--user", "a", "--default-user", "--producer-byte-rate", "1"], "exclude each other"),
        (["add", "--user", "", "--producer-byte-rate", "1"], "needs a name"),
        (["add", "--user", "a", "--ip", "::1", "--producer-byte-rate", "1"], "leave out --ip"),
        (["add", "--user", "a", "--connection-creation-rate", "1"], "a quota of addresses"),
        (["add", "--ip", "::1", "--producer-byte-rate", "1"], "a quota of users and client ids"),
        (["add", "--user", "a", "--request-percentage", "0"], "must be above 0"),
        (["remove", "nonsense", "--user", "a"], "is no quota"),
        (["remove"], "say whose quota"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(run: Run, words: list[str], sentence: str) -> None:
    assert sentence in run(*words, code=2)


def test_what_the_broker_refuses_is_said_in_its_words(run: Run) -> None:
    refused = run("add", "--ip", "no.such.host.example", "--connection-creation-rate", "1", code=1)
    assert "is not a valid IP address" in refused
