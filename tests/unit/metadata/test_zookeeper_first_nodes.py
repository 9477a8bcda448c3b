"""Brokers that start at once on an empty ensemble: one looks while another makes the first nodes."""

import asyncio
from types import SimpleNamespace

import pytest

from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.foundation import Foundation, find
from moldau.broker.metadata.zookeeper.layout import Layout


class LookingSession:
    """Between the first look and the second one another broker makes its nodes."""

    options = SimpleNamespace(hosts="zk:2181")

    def __init__(self, *bases):
        self.bases = list(bases)

    async def find(self, path):
        return self.bases.pop(0)

    async def stat(self, path):
        return object()


def test_the_nodes_of_another_broker_of_this_cluster_are_found():
    session = LookingSession(None, (b'{"format": 1, "broker_epoch_base": 7}', 1))
    assert asyncio.run(find(session, Layout(""))) == Foundation(7)


def test_the_nodes_of_another_system_are_said():
    with pytest.raises(MetadataStoreError, match="another system"):
        asyncio.run(find(LookingSession(None, None), Layout("")))
