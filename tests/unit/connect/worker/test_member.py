"""A worker's membership where its coordinator does not answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client.connection import ConnectionLost
from moldau.services.connect.group.member import Member
from moldau.services.connect.settings import worker_configuration


class SilentCluster:
    """Its coordinator takes requests, and answers none."""

    options = SimpleNamespace(request_timeout_seconds=30.0)

    def __init__(self) -> None:
        self.waited: list[float] = []

    def coordinator(self, key: str, kind: int) -> "SilentCluster":
        return self

    def ask(self, request: Any, *, timeout_seconds: float) -> Any:
        self.waited.append(timeout_seconds)
        raise ConnectionLost("it does not answer")


def test_no_heartbeat_is_waited_for_longer_than_the_session() -> None:
    texts = {
        "bootstrap.servers": "b:1",
        "group.id": "g",
        "key.converter": "j",
        "value.converter": "j",
        **{f"{each}.storage.topic": each for each in ("config", "offset", "status")},
        "session.timeout.ms": "6000",
    }
    cluster = SilentCluster()
    settings = worker_configuration(texts).settings
    member = Member(lambda: cluster, settings, "http://me:1/", lambda: 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConnectionLost):
        member._heartbeat()
    assert cluster.waited == [6.0]
