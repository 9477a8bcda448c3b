"""Any sequence of crashes, interruptions, restarts and requests: what every broker knows stays sound, and
when all is well again they agree.

Brokers have no logs here; `complete` stands for them. It says who has every record that may have been
acknowledged, by the weakest rule that a leader must keep: it acknowledges when all in-sync replicas have a
record, and only while they are as many as `min.insync.replicas`. Who crashed has lost the end of its log.
"""

import asyncio
import json

from controller_cluster import SESSION_TIMEOUT_MS, Cluster
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.codec import decode_changes
from moldau.broker.metadata.image import EMPTY_IMAGE

NODES = (1, 2, 3)
MIN_ISR = 2
STEPS = st.one_of(
    st.tuples(st.sampled_from(["crash", "stop", "expire", "cut off", "reconnect"]), st.sampled_from(NODES)),
    st.tuples(st.just("start"), st.sampled_from(NODES)),
    st.tuples(st.just("in sync"), st.sets(st.sampled_from(NODES), min_size=1)),
    st.tuples(st.just("wait"), st.sampled_from([1, SESSION_TIMEOUT_MS // 2, SESSION_TIMEOUT_MS])),
)


class History:
    """A cluster, what was done to it, and which replicas have all that may have been acknowledged."""

    def __init__(self):
        self.cluster = Cluster()
        self.last_epoch = {}
        self.away = set()
        self.unclean = set()
        self.lost = set()
        """(node id, last broker epoch before it crashed): the next registration is without the log's end."""
        self.joining = []

    async def do(self, kind, what):
        cluster = self.cluster
        if kind == "wait":
            await cluster.wait_ms(what)
        elif kind == "in sync":
            await self.ask_in_sync(what)
        elif kind == "start":
            if what not in cluster.brokers and not self.lingers(what):
                previous = -1 if what in self.unclean else self.last_epoch[what]
                self.unclean.discard(what)
                broker = await cluster.begin(what)
                joining = self.join(broker, what, previous)
                self.joining.append(asyncio.ensure_future(joining))  # it waits for a controller
        elif what in cluster.brokers:
            await self.disturb(kind, what)
        await cluster.settle()

    @staticmethod
    async def join(broker, node, previous):
        """As a node does: registered, and then telling where its logs end, where that is asked for."""
        broker.view.subscribe(lambda old, new, changes: broker.this_broker.log_ends.heard(new, changes))
        await broker.this_broker.register({"P": ("host", node)}, None, [previous])
        broker.this_broker.log_ends.begin(lambda topic, topic_id, index: (0, node))

    async def disturb(self, kind, node):
        cluster, store = self.cluster, self.cluster.stores[node]
        self.last_epoch[node] = cluster.brokers[node].this_broker.broker_epoch
        if kind == "crash":
            self.unclean.add(node)
            self.lost.add((node, cluster.ensemble._broker_epoch))
            self.away.discard(node)
            await cluster.vanish(node)
        elif kind == "stop" and node not in self.away:
            self.unclean.discard(node)
            del cluster.stores[node]
            await cluster.brokers.pop(node).this_broker.close()
        elif kind == "expire" and node not in self.away:
            cluster.ensemble.expire(store)
        elif kind == "cut off":
            self.away.add(node)
            cluster.ensemble.disconnect(store)
        elif kind == "reconnect":
            self.away.discard(node)
            cluster.ensemble.reconnect(store)

    def lingers(self, node):
        """Whether the session of the node's last life has not ended: a start would wait for that."""
        sessions = self.cluster.ensemble.sessions
        return any(each.registration and each.registration.node_id == node for each in sessions)

    async def ask_in_sync(self, members):
        """The leader asks, if it can: followers that live have caught up, or fell behind."""
        state = self.cluster.ensemble.image.topics["a"].partitions[0]
        leader = self.cluster.brokers.get(state.leader)
        if leader is None or state.leader in self.away:
            return
        isr = tuple(sorted({state.leader, *members}))
        asked = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, isr)
        await leader.alter_partitions(state.leader, leader.this_broker.broker_epoch, [asked])

    async def heal(self):
        """Everybody starts, reaches the store and is heard of."""
        for node in sorted(self.away):
            await self.do("reconnect", node)
        await self.cluster.wait_ms(SESSION_TIMEOUT_MS)
        for node in NODES:
            await self.do("start", node)
        await self.cluster.settle()


def check_history(cluster, lost):
    """The whole log: epochs never go back, and each leader is one who has every acknowledged record, unless
    all who had them have lost the end of their logs."""
    image, complete = EMPTY_IMAGE, set(NODES)
    leaders, before, registered = {}, None, {}
    for version, data in enumerate(cluster.ensemble.log, start=1):
        changes = decode_changes(data)
        old, image = image, replay(image, version, changes)
        assert image.controller_epoch >= old.controller_epoch
        for node, broker in image.brokers.items():
            assert broker.broker_epoch >= registered.get(node, -1)
            registered[node] = broker.broker_epoch
        if "a" not in image.topics:
            continue
        state = image.topics["a"].partitions[0]
        if before is not None and state != before:
            assert state.partition_epoch == before.partition_epoch + 1
            assert state.leader_epoch >= before.leader_epoch
        assert leaders.setdefault(state.leader_epoch, state.leader) == state.leader, "one leader an epoch"
        again = {each for each in lost if image.brokers[each[0]].broker_epoch > each[1]}
        lost = lost - again
        complete -= {node for node, _ in again}
        complete = complete or set(NODES)  # nobody has them any more
        if state.leader != -1:
            assert state.leader in state.isr
            assert not image.brokers[state.leader].fenced
            assert state.leader in complete, (version, state, complete)
        if len(state.isr) >= MIN_ISR:
            complete = set(state.isr)  # what is acknowledged from now on, they all have
        else:
            complete |= set(state.isr)
        before = state


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_whatever_happens_nobody_leads_who_has_not_all_and_all_agree_in_the_end(steps):
    async def scenario():
        history = History()
        cluster = history.cluster
        cluster.ensemble.log = log = []
        append = cluster.ensemble.append

        def noted(changes):
            version = append(changes)
            log.append(json.loads(cluster.ensemble.entries[-1]))
            return version

        cluster.ensemble.append = noted
        await cluster.start(*NODES)
        await cluster.topic(replicas=NODES)
        for kind, what in steps:
            await history.do(kind, what)
        await history.heal()
        image = cluster.image
        assert image == cluster.ensemble.image
        assert [broker.node_id for broker in image.live_brokers()] == list(NODES)
        assert image.controller_id in NODES
        assert image.controller_epoch == cluster.ensemble.controller_epoch
        assert image.topics["a"].partitions[0].leader in NODES
        check_history(cluster, history.lost)
        for controller in cluster.brokers.values():
            await controller.this_broker.close()
        await asyncio.gather(*history.joining, return_exceptions=True)

    asyncio.run(scenario())
