"""What monitoring sees does not depend on who was first: it, or a client that needs a coordinator."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from data_plane_world import on_a_node

from moldau.broker.node import Node
from moldau.broker.server import monitoring_port
from moldau.broker.server.listeners import Listeners
from moldau.broker.server.monitoring_port import MonitoringPort


@pytest.mark.parametrize("coordinators_first", [True, False])
def test_monitoring_sees_both_coordinators(tmp_path: Path, coordinators_first: bool) -> None:
    async def scene(node: Node) -> None:
        if not coordinators_first:
            node.monitoring_port.begin()
        groups, transactions = node.broker.groups, node.broker.transactions
        if coordinators_first:
            node.monitoring_port.begin()
        monitoring = node.monitoring_port.monitoring
        assert monitoring is not None
        assert monitoring.sources.groups is groups
        assert monitoring.sources.transactions is transactions

    on_a_node(scene, tmp_path, moldau_http_listener="127.0.0.1:0")


def test_monitoring_begins_when_the_addresses_are_bound_however_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring_port, "_BEGIN_DELAY_MS", 0)
    bind, begin = Listeners.bind, MonitoringPort.begin
    begun: list[bool] = []

    async def slow_bind(self: Listeners, planned: Any) -> None:
        for _ in range(50):  # turns of the loop, in which monitoring might begin
            await asyncio.sleep(0)
        await bind(self, planned)

    def noted(self: MonitoringPort) -> None:
        begin(self)
        begun.append(self.monitoring is not None)

    monkeypatch.setattr(Listeners, "bind", slow_bind)
    monkeypatch.setattr(MonitoringPort, "begin", noted)

    async def scene(node: Node) -> None:
        assert begun == [True]

    on_a_node(scene, tmp_path, moldau_http_listener="127.0.0.1:0")
