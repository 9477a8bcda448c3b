"""ACLs in a cluster: every broker comes to the same rights, also one that was away while they changed; and
what an answer has acknowledged holds at once on the broker that gave it.
"""

from __future__ import annotations

import random
from typing import Any

from sim_client import SimClient
from sim_cluster import Cluster
from sim_world import World, simulate

from moldau.broker.handlers.parts.session import Session
from moldau.broker.security.authorizer import Authorizer
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.common.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.common.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

SECURED = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
"""Brokers and the administrator are not logged in; the rights in question are those of others."""
NAMES = ("a", "ab", "b", "*")
USERS = ("User:alice", "User:bob")
CHANGES = 20
VERSION = 3


def any_acl(source: random.Random) -> Acl:
    return Acl(
        ResourceType.TOPIC,
        source.choice(NAMES),
        source.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        source.choice((*USERS, "User:*")),
        source.choice(("*", "10.0.0.0/8", "10.0.0.1")),
        source.choice((Operation.READ, Operation.WRITE, Operation.ALL)),
        source.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def creation(acl: Acl) -> CreateAclsRequest:
    row = AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return CreateAclsRequest(creations=[row])


def deletion(acl: Acl) -> DeleteAclsRequest:
    row = DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    return DeleteAclsRequest(filters=[row])


class Watched:
    """Sessions at one broker that live through all changes, with what the broker decides about them."""

    def __init__(self) -> None:
        self.sessions = []
        for user in USERS:
            session = Session("P", client_host="10.0.0.1")
            session.authenticate(user, 0)
            self.sessions.append(session)

    def rights(self, authorizer: Authorizer) -> list[bool]:
        return [
            authorizer.allows(session, operation, ResourceType.TOPIC, name, quiet=True)
            for session in self.sessions
            for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)
            for name in ("a", "ab", "abc", "b", "*", "z")
        ]


def of_image(cluster: Cluster) -> list[bool]:
    """The rights by the ensemble's own image."""
    fresh = Authorizer()
    fresh.image_changed(cluster.ensemble.image, cluster.ensemble.image, ())
    return Watched().rights(fresh)


def authorizer_of(cluster: Cluster, node_id: int) -> Authorizer:
    node = cluster.machine(node_id).node
    assert node is not None
    assert node.broker.authorizer is not None
    return node.broker.authorizer


def test_every_broker_comes_to_the_same_rights(seed: int) -> None:
    async def scenario(world: World) -> int:
        cluster = Cluster(world, 3, **SECURED)
        await cluster.start()
        source = world.draw("acls")
        watched = {node_id: Watched() for node_id in (1, 2, 3)}
        clients = {
            node_id: SimClient(world, f"admin{node_id}", cluster.machine(node_id).address)
            for node_id in watched
        }
        held: list[Acl] = []

        async def change(node_id: int) -> None:
            gone = bool(held) and source.random() < 0.4
            acl = source.choice(held) if gone else any_acl(source)
            request: Any = deletion(acl) if gone else creation(acl)
            answer = await clients[node_id].spawn(clients[node_id].persist(request, VERSION))
            rows = answer.filter_results if gone else answer.results
            assert [row.error_code for row in rows] == [0]
            if gone:
                held.remove(acl)
            elif acl not in held:
                held.append(acl)
            if not apart:
                assert watched[node_id].rights(authorizer_of(cluster, node_id)) == of_image(cluster), (
                    "at once"
                )

        apart = False
        for number in range(CHANGES):
            if number == CHANGES // 2:
                world.network.separate(cluster.machine(3).name, cluster.hosts[-1])
                apart = True
            await change(source.choice((1, 2) if apart else (1, 2, 3)))
            watched[3].rights(authorizer_of(cluster, 3))  # remembered, and to be forgotten
        await cluster.heal()
        expected = of_image(cluster)
        await world.until(lambda: not cluster.behind())
        for node_id, sessions in watched.items():
            assert sessions.rights(authorizer_of(cluster, node_id)) == expected, node_id
        everything = DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=Permission.ANY,
        )
        for client in clients.values():
            answer = await client.spawn(client.persist(everything, VERSION))
            assert sum(len(each.acls) for each in answer.resources) == len(held)
        return sum(expected)

    simulate(scenario, seed)
