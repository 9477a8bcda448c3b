"""What this broker pulls over one link: the partitions that it leads of the link's topics.

    metadata of the source ──> each machine hears who leads ──> ends compared ──> one fetch loop a source
    broker (fetching.py) ──> machine ──> appended, cut, epoch raised

One task keeps the machines going; it is woken by news and by the next pause that ends. What machines ask for
is carried out in `carry_out`: questions to the source are tasks of their own, one a partition.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from moldau.broker.controller.mirrors import fault, know_source, partitions_done, raise_epochs
from moldau.broker.log.appending.append_result import Refused
from moldau.broker.metadata.mirrors import MirrorLink, MirrorState, MirrorTopic
from moldau.broker.mirror import outputs as out
from moldau.broker.mirror.asking import ask_batch, ask_epoch_end, ask_offsets
from moldau.broker.mirror.fetching import SourceFetch
from moldau.broker.mirror.machine import LEADER_EPOCH_MAX, EpochEnd, State
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.mirror.pulled import Pulled, first_epoch, same_batch
from moldau.broker.mirror.source import SourceCluster, SourcePartition, SourceTopic
from moldau.broker.peers.peers import PeerError, Unsupported
from moldau.broker.replication.mirrored import append_mirrored, cut_mirror
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.errors import ErrorCode, error_name

log = logging.getLogger("moldau.mirror")

_TURN_MS = 100.0
_REFRESH_MS = 30_000.0
_CUT_POLL_MS = 20.0
_DECIDE_AGAIN_MS = 1000.0


class LinkPuller:
    """Pulls over one link until `close`."""

    def __init__(self, parts: MirrorParts, link: MirrorLink) -> None:
        """CredentialsError, SettingError."""
        self.link = link
        self.problem = ""
        """Why the source cannot be asked; empty while it can."""
        self.bytes_pulled = 0
        self._parts = parts
        self._source = SourceCluster(parts, link.name, link.settings)
        self._pulled: dict[tuple[str, int], Pulled] = {}
        self.levels: dict[tuple[str, int], float] = {}
        """When what is not pulled now was level last (monotonic, in milliseconds)."""
        self._fetches: dict[int, SourceFetch] = {}
        self._started: dict[str, set[int]] = {}
        self._find_leaders = False
        self._refresh_ms = 0.0
        self._news: asyncio.Event | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._runs = False
        self._closed = False

    # What to pull

    def pull(self, partition: Partition, mirror: MirrorTopic) -> None:
        """Pull this partition, which this broker leads."""
        key = (partition.topic, partition.index)
        known = self._pulled.get(key)
        if known is not None and known.partition is partition:
            known.source_id = mirror.source_id
            if mirror.state is MirrorState.PREPARING and partition.index in mirror.left:
                if known.machine.state is State.FAULTED:
                    self.stop(*key)  # resumed, and this broker did not see the topic as faulted
                    self.pull(partition, mirror)
                    return
                self._begun_already(known)
            if known.leader_epoch == partition.leader_epoch:
                return
            known.leader_epoch = partition.leader_epoch
            self._parts.host.loop.call_soon(self._tell)
            return
        if known is not None:
            known.stopped = True  # of a topic that was deleted since
        pulled = self._pulled[key] = Pulled(partition, mirror.source, mirror.source_id)
        pulled.machine.caught_up_ms = self.levels.pop(key, None)
        self._find_leaders = True
        self._begin()

    def _begun_already(self, pulled: Pulled) -> None:
        """The topic was paused and resumed before this broker saw it paused: say again where it begins."""
        if pulled.machine.has_begun:
            self._started.setdefault(pulled.partition.topic, set()).add(pulled.partition.index)
            self._parts.host.loop.call_soon(self._tell)

    def stop(self, topic: str, index: int) -> None:
        """Pull this partition no more; an answer that comes later changes nothing."""
        pulled = self._pulled.pop((topic, index), None)
        if pulled is None:
            return
        pulled.stopped = True
        if pulled.machine.caught_up_ms is not None:
            self.levels[topic, index] = pulled.machine.caught_up_ms

    def last_levels(self) -> dict[tuple[str, int], float]:
        """When each partition was level last, also of those that are pulled."""
        for topic, index in list(self._pulled):
            self.stop(topic, index)
        return self.levels

    def all(self) -> Iterator[Pulled]:
        """What is pulled."""
        yield from self._pulled.values()

    def close(self) -> None:
        """Pull nothing more."""
        self._closed = True
        self.last_levels()  # stops them all
        for fetch in self._fetches.values():
            fetch.close()
        self._source.close()
        for task in list(self._tasks):
            task.cancel()

    # The task

    def _begin(self) -> None:
        if not self._runs and not self._closed:
            self._runs = True
            self._news = asyncio.Event()
            self.start(self._run())
        self._tell()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this as a task of the link."""
        task = self._parts.host.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _do(self, pulled: Pulled, work: Coroutine[Any, Any, None]) -> None:
        """Run this for a partition as a task; whatever happens there, the partition goes on later."""

        async def guarded() -> None:
            try:
                await work
            except Exception:
                self.failed_by_bug([pulled])

        self.start(guarded())

    def failed_by_bug(self, pulled: Iterable[Pulled]) -> None:
        """The exception that is being handled is a bug: these partitions pause."""
        log.exception("mirroring over the link %s failed: this is a bug", self.link.name)
        for each in pulled:
            problem = "a bug of this broker: see its log"
            self.carry_out(each, each.machine.leader_lost(problem, self.now_ms()))

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
        for fetch in self._fetches.values():
            fetch.tell()

    def now_ms(self) -> float:
        """Monotonic."""
        return self._parts.clock.monotonic_ms()

    async def _run(self) -> None:
        while not self._closed:
            assert self._news is not None
            self._news.clear()
            try:
                await self._turn()
            except Exception:
                log.exception("mirroring over the link %s failed: this is a bug", self.link.name)
            timer = self._parts.host.timers.call_later(_TURN_MS, self._news.set)
            await self._news.wait()
            timer.cancel()

    async def _turn(self) -> None:
        now_ms = self.now_ms()
        slices = self._parts.lane.slices()
        for pulled in list(self._pulled.values()):
            machine = pulled.machine
            if machine.state is State.FETCHING:
                continue
            self.carry_out(pulled, machine.tick(now_ms))
            if machine.state is State.CUTTING and not pulled.partition.log.is_cutting:
                self.carry_out(pulled, machine.cut_done(pulled.ends()))
            if machine.state is State.RAISING:
                self.carry_out(pulled, machine.epoch_is(pulled.partition.leader_epoch))
            if slices.spent():
                await slices.next_slice()
        if self._find_leaders or (self._pulled and now_ms >= self._refresh_ms):
            await self._look()
        if self._started:
            await self._say_started()

    # Who leads at the source

    async def _look(self) -> None:
        self._find_leaders = False
        self._refresh_ms = self.now_ms() + _REFRESH_MS
        names = sorted({each.source for each in self._pulled.values()})
        try:
            topics = await self._source.topics(names)
        except PeerError as error:
            self._unreachable(f"the source cannot be asked: {error}")
            return
        self.problem = ""
        await self._raise_epochs(topics)
        slices = self._parts.lane.slices()
        for pulled in list(self._pulled.values()):
            if slices.spent():
                await slices.next_slice()
            found = topics.get(pulled.source)
            if found is None or found.error_code:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code
                text = f"the source says {error_name(code)} of the topic {pulled.source}"
                self.carry_out(pulled, pulled.machine.failed(text, self.now_ms()))
                continue
            await self._heard(pulled, found)
        self._tell()

    async def _heard(self, pulled: Pulled, topic: SourceTopic) -> None:
        known, now = pulled.source_id, topic.topic_id
        if any(known) and any(now) and known != now:
            reason = (
                f"the topic {pulled.source} was deleted and made anew at the source (another topic id): "
                "delete the mirror and make it anew, or fail it over to keep what it has"
            )
            self.carry_out(pulled, pulled.machine.fault(reason))
            return
        if any(now) and not any(known):
            pulled.source_id = now
            await self._decide(lambda image: know_source(image, pulled.partition.topic, now))
        there = topic.partitions.get(pulled.partition.index)
        if there is None:
            text = f"the source's topic {pulled.source} has no partition {pulled.partition.index}"
            self.carry_out(pulled, pulled.machine.fault(text))
            return
        self.carry_out(pulled, pulled.machine.led_by(there.leader, there.leader_epoch, pulled.ends()))
        if there.leader >= 0:
            self._fetch(there.leader)

    def _fetch(self, leader: int) -> SourceFetch:
        found = self._fetches.get(leader)
        if found is None:
            found = self._fetches[leader] = SourceFetch(leader, self._parts, self._source, self)
            self.start(found.run())
        return found

    def _unreachable(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("link %s: %s", self.link.name, problem)
        self.problem = problem
        for pulled in list(self._pulled.values()):
            if pulled.machine.state in (State.LOOKING, State.PAUSED):
                self.carry_out(pulled, pulled.machine.failed(problem, self.now_ms()))

    async def _raise_epochs(self, topics: Mapping[str, SourceTopic]) -> None:
        """Our leader epochs are at least the source's, before anything of its is appended."""
        wanted: dict[str, dict[int, int]] = {}
        for pulled in self._pulled.values():
            found = topics.get(pulled.source)
            there = None if found is None else found.partitions.get(pulled.partition.index)
            own = pulled.partition.leader_epoch
            if there is not None and own < there.leader_epoch <= LEADER_EPOCH_MAX:
                wanted.setdefault(pulled.partition.topic, {})[pulled.partition.index] = there.leader_epoch
        for topic, epochs in wanted.items():
            await self._decide(partial(raise_epochs, topic=topic, wanted=epochs))

    # What machines ask for

    def carry_out(self, pulled: Pulled, outputs: out.Outputs) -> None:
        """Do what a machine has decided; nothing once the partition is pulled no more."""
        if pulled.stopped:
            return
        for output in outputs:
            if isinstance(output, out.Append):
                raise AssertionError("fetching.py appends")
            if isinstance(output, out.AskOffsets):
                self._do(pulled, self._ask_offsets(pulled))
            elif isinstance(output, out.AskEpochEnd):
                self._do(pulled, self._ask_epoch_end(pulled, output.leader_epoch))
            elif isinstance(output, out.AskLast):
                self._do(pulled, self._compare_last(pulled))
            elif isinstance(output, out.Truncate):
                self._cut(pulled, output.offset, anew=False)
            elif isinstance(output, out.BeginAt):
                self._cut(pulled, output.offset, anew=True)
            elif isinstance(output, out.RaiseEpoch):
                self._do(pulled, self._raise(pulled, output.leader_epoch))
            elif isinstance(output, out.Started):
                topic, index = pulled.partition.topic, pulled.partition.index
                self._started.setdefault(topic, set()).add(index)
                self._tell()
            elif isinstance(output, out.FindLeader):
                self._find_leaders = True
            else:
                self._do(pulled, self._fault(pulled, output.reason))

    async def _ask_offsets(self, pulled: Pulled) -> None:
        machine, leader = pulled.machine, pulled.leader
        try:
            told = await ask_offsets(self._source, leader, pulled.source, pulled.partition.index)
        except PeerError as error:
            self._leader_lost(pulled, leader, str(error))
            return
        if pulled.leader != leader:
            return  # another leads since, and is asked
        if isinstance(told, int):
            text = f"the source answered {error_name(told)} when asked for its log's ends"
            self.carry_out(pulled, machine.leader_lost(text, self.now_ms()))
            return
        self.carry_out(pulled, machine.offsets(*told, pulled.ends()))
        self._tell()

    async def _ask_epoch_end(self, pulled: Pulled, epoch: int) -> None:
        machine, leader = pulled.machine, pulled.leader
        try:
            told = await ask_epoch_end(self._source, leader, pulled.source, pulled.partition.index, epoch)
        except Unsupported:
            self.carry_out(pulled, machine.epochs_refused(pulled.ends()))
            self._tell()
            return
        except PeerError as error:
            self._leader_lost(pulled, leader, str(error))
            return
        if pulled.leader != leader:
            return
        if isinstance(told, int):
            text = f"the source answered {error_name(told)} when asked for a leader epoch's end"
            self.carry_out(pulled, machine.leader_lost(text, self.now_ms()))
            return
        own = pulled.own_epoch_end(told.leader_epoch if told.end_offset >= 0 else epoch)
        earlier = pulled.earlier_epoch(epoch)
        self.carry_out(pulled, machine.epoch_end(epoch, EpochEnd(*told), own, earlier, pulled.ends()))
        self._tell()

    async def _compare_last(self, pulled: Pulled) -> None:
        machine, leader = pulled.machine, pulled.leader
        own = pulled.last_batch()
        offset = int.from_bytes(own[:8], "big") if own is not None else -1
        same: bool | None = None
        if own is not None:
            try:
                told = await ask_batch(self._source, leader, pulled.source, pulled.partition.index, offset)
            except PeerError as error:
                self._leader_lost(pulled, leader, str(error))
                return
            if isinstance(told, int):
                if told != ErrorCode.OFFSET_OUT_OF_RANGE:
                    text = f"the source answered {error_name(told)} when asked for the batch at {offset}"
                    self._leader_lost(pulled, leader, text)
                    return
            elif len(told):
                same = same_batch(own, told)
        if pulled.leader == leader:
            self.carry_out(pulled, machine.last_is(same, offset))
            self._tell()

    def _leader_lost(self, pulled: Pulled, leader: SourcePartition, problem: str) -> None:
        if pulled.leader == leader:
            self.carry_out(pulled, pulled.machine.leader_lost(problem, self.now_ms()))

    def _cut(self, pulled: Pulled, offset: int, *, anew: bool) -> None:
        ends = pulled.ends()
        if not ends.is_empty:
            kind = "begins anew" if anew else "is cut off"
            log.warning(
                "%s %s at offset %d (it held %d to %d): the source does not have that",
                pulled.name,
                kind,
                offset,
                ends.start_offset,
                ends.end_offset,
            )
        cut_mirror(pulled.partition, offset, anew=anew)
        self._wait_for_cut(pulled)

    def _wait_for_cut(self, pulled: Pulled) -> None:
        if self._closed or pulled.stopped:
            return
        if pulled.partition.log.is_cutting:
            self._parts.host.timers.call_later(_CUT_POLL_MS, lambda: self._wait_for_cut(pulled))
            return
        self.carry_out(pulled, pulled.machine.cut_done(pulled.ends()))

    async def _raise(self, pulled: Pulled, epoch: int) -> None:
        partition = pulled.partition
        wanted = {partition.index: epoch}
        await self._decide_surely(pulled, lambda image: raise_epochs(image, partition.topic, wanted))
        self.carry_out(pulled, pulled.machine.epoch_is(partition.leader_epoch))
        self._tell()  # where the epoch is not in effect yet, it is found in a later turn

    async def _fault(self, pulled: Pulled, reason: str) -> None:
        topic = pulled.partition.topic
        log.error("the mirror %s stops: %s", pulled.name, reason)
        await self._decide_surely(pulled, lambda image: fault(image, topic, self.link.name, reason))

    async def _say_started(self) -> None:
        started, self._started = self._started, {}
        for topic, indexes in started.items():
            mirror = self._parts.image().mirrors.get(topic)
            left = () if mirror is None or mirror.state is not MirrorState.PREPARING else mirror.left
            if not any(index in left for index in indexes):
                continue
            decide = partial(
                partitions_done,
                topic=topic,
                state=MirrorState.PREPARING,
                indexes=tuple(indexes),
                node_id=self._parts.node_id,
                highest_producer_id=-1,
            )
            done = await self._decide(decide)
            if done is None:
                self._started.setdefault(topic, set()).update(indexes)

    async def _decide_surely(self, pulled: Pulled, decide: Callable[[Any], Any]) -> None:
        """Make a decision that nothing else would make; again while it cannot be written."""
        while not pulled.stopped and await self._decide(decide) is None:
            await self._parts.pause(_DECIDE_AGAIN_MS)

    async def _decide(self, decide: Callable[[Any], Any]) -> bool | None:
        """Make a decision; None if it could not be written."""
        try:
            done: bool | None = await self._parts.controller.decide(decide, lambda failure: None)
        except asyncio.CancelledError:
            raise
        return done

    # What came of a fetch

    def append(self, pulled: Pulled, records: memoryview, source_start: int) -> memoryview | None:
        """Append what was fetched: what is left for the next call, None: nothing."""
        if not pulled.may_fetch:
            return None  # ends are being compared, say, or the log is cut
        partition, machine = pulled.partition, pulled.machine
        result = append_mirrored(partition, records, self._parts.clock.now_ms(), source_start)
        if isinstance(result, Refused):
            self.carry_out(pulled, machine.failed(result.error_message or "", self.now_ms()))
            return None
        self.bytes_pulled += result.size_bytes
        if result.error_code:
            text = f"the fetched records cannot be appended: {result.error_message}"
            self.carry_out(pulled, machine.failed(text, self.now_ms()))
            return None
        left = records[result.size_bytes :]
        own_epoch = partition.leader_epoch
        self.carry_out(pulled, machine.appended(pulled.ends(), first_epoch(left), own_epoch))
        if result.size_bytes and len(left) and machine.state is State.FETCHING:
            return left
        return None
