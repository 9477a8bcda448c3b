"""What monitoring sees does not depend on who was first: it, or a client that needs a coordinator."""

from pathlib import Path

import pytest
from data_plane_world import on_a_node

from moldau.broker.node import Node


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
