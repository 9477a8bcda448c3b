"""A worker's membership where its coordinator does not answer."""

from typing import Any

import pytest

from moldau.client.connection import ConnectionLost
from moldau.client.options import ClientOptions
from moldau.services.connect.group.member import Member
from moldau.services.connect.group.protocol import Assignment
from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.settings import worker_configuration


class SilentCluster:
    """Its coordinator takes requests, and answers none."""

    def __init__(self) -> None:
        self.options = ClientOptions()
        self.waited: list[float] = []

    def coordinator(self, key: str, kind: int) -> "SilentCluster":
        return self

    def ask(self, request: Any, *, timeout_seconds: float) -> Any:
        self.waited.append(timeout_seconds)
        raise ConnectionLost("it does not answer")


def silent() -> tuple[Member, SilentCluster]:
    """A member whose coordinator has become silent."""
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
    member._member_id, member._listener = "me", Deaf()  # type: ignore[assignment]
    member._take(Assignment("me", "http://me:1/", 0, frozenset({TaskId("c", 0)})), 3, "sessioned")
    return member, cluster


class Deaf:
    """Listens to nothing."""

    def assigned(self, offset: int) -> None: ...

    def lost(self) -> None: ...


@pytest.mark.parametrize("deed", ["_heartbeat", "_join"])
def test_a_member_with_work_waits_no_longer_than_its_session(deed: str) -> None:
    member, cluster = silent()
    with pytest.raises(ConnectionLost):
        getattr(member, deed)()
    assert len(cluster.waited) == 1
    assert 5.0 < cluster.waited[0] <= 6.0
    assert cluster.options.request_timeout_seconds == 2.0  # what looks for the coordinator


def test_a_member_without_work_may_wait_for_the_others_to_join() -> None:
    member, cluster = silent()
    member._generation = -1
    with pytest.raises(ConnectionLost):
        member._join()
    assert cluster.waited == [90.0]
