"""Changes across brokers: elect preferred leaders, move a topic's copies, cancel moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.client.admin.elections import PREFERRED, elect_leaders
from moldau.client.admin.layout import Place
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.reassignments import find_moves, submit_moves
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.changes.change import Change, Done, Field, Plan, Refused, Target, Values
from moldau.services.console.changes.spreading import spread
from moldau.services.console.changes.topics import topic_link
from moldau.services.http.rights import Kind, Operation

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.services.console.cluster import ClusterAccess

_ELECTION_SECONDS = 20.0
_ROWS_MAX = 2_000


class BrokerChanges:
    """The changes, with the cluster that they are made in."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def all(self) -> list[Change]:
        """The table of them."""
        return [
            Change(
                "elect-preferred",
                "/brokers/elect",
                "Elect preferred leaders",
                "Let each partition be led by its first copy again, where that is in sync.",
                Operation.CONFIGURE,
                Kind.CLUSTER,
                "",
                self._plan_election,
                self._elect,
                back="/brokers",
            ),
            Change(
                "move-topic",
                "/topics/{topic}/move",
                "Move copies",
                "Spread the copies of a topic over brokers, evenly; or have more or fewer of them.",
                Operation.CONFIGURE,
                Kind.TOPIC,
                "topic",
                self._plan_move,
                self._move,
                (
                    Field("brokers", "Brokers", help="Their ids, such as 1,2,3.", required=True),
                    Field("copies", "Copies of each partition", "number", required=True),
                ),
                self._prefill_move,
                back="/topics/{topic}/partitions",
            ),
            Change(
                "cancel-moves",
                "/topics/{topic}/cancel-moves",
                "Cancel moves",
                "End the moves of a topic that are under way; its copies stay where they were.",
                Operation.CONFIGURE,
                Kind.TOPIC,
                "topic",
                self._plan_cancel,
                self._cancel,
                back="/topics/{topic}/partitions",
            ),
        ]

    async def _plan_election(self, target: Target, values: Values) -> Plan:
        snapshot = await self._access.facts.snapshot()
        rows = [
            (topic.name, each)
            for topic in snapshot.topics.values()
            for each in topic.partitions
            if each.replicas and each.leader != each.replicas[0] and each.replicas[0] in each.in_sync
        ]
        if not rows:
            raise Refused("Every partition whose first copy is in sync is led by it already.")
        table = [(f"{name}-{each.partition_id}", each.leader, each.replicas[0]) for name, each in rows]
        lines = [
            f"{len(rows):,} partitions get another leader, their first copy.",
            "Clients of these partitions find the new leader by themselves, after a short pause.",
        ]
        work = [[name, each.partition_id] for name, each in rows]
        columns = ("Partition", "Led by", "Then by")
        return Plan("Elect preferred leaders", lines, "Elect", work, (), columns, table[:_ROWS_MAX])

    async def _elect(self, target: Target, plan: Plan) -> Done:
        places = [(topic, index) for topic, index in plan.work]
        found = await self._access.call(
            lambda cluster: elect_leaders(cluster, PREFERRED, places, _ELECTION_SECONDS)
        )
        failed = [each for each in found if each.error_code and not each.is_needless]
        await self._access.facts.refreshed()
        if failed:
            first = failed[0]
            raise KafkaProblem(
                first.error_code,
                f"{len(found) - len(failed)} leaders were elected, {len(failed)} were not: "
                f"{first.place[0]}-{first.place[1]}: {first.words}",
            )
        return Done(f"{len(found):,} partitions are led by their first copy.", "/brokers")

    async def _prefill_move(self, target: Target) -> Values:
        topic = await self._access.topic(target["topic"])
        snapshot = await self._access.facts.snapshot()
        return {
            "brokers": ",".join(map(str, snapshot.brokers)),
            "copies": str(topic.replication_factor),
        }

    async def _plan_move(self, target: Target, values: Values) -> Plan:
        topic = await self._access.topic(target["topic"])
        alive = set((await self._access.facts.snapshot()).brokers)
        brokers = _ids(values.get("brokers", ""), alive)
        text = values.get("copies", "").strip()
        if not text.isdigit() or not 1 <= int(text[:6]) <= len(brokers):
            raise Refused(
                f"Copies are a number from 1 to {len(brokers)}, as many as brokers are named.", "copies"
            )
        now = {each.partition_id: each.replicas for each in topic.partitions}
        then = await asyncio.to_thread(spread, now, brokers, int(text))
        moved = {index: replicas for index, replicas in then.items() if replicas != tuple(now[index])}
        if not moved:
            raise Refused("Nothing would move: the copies lie so already.", "brokers")
        copied = sum(len(set(then[index]) - set(now[index])) for index in moved)
        share = topic.size_bytes // max(1, sum(map(len, now.values()))) if topic.size_bytes else 0
        lines = [
            f"{len(moved):,} partitions of {topic.name} get other copies, or another first one.",
            f"{copied:,} copies are made anew, about {copied * share / 2**20:,.0f} MiB; the others stay.",
            "Old copies are deleted when the new ones are in sync. Reading and writing go on meanwhile.",
        ]
        warnings = []
        if int(text) < topic.replication_factor:
            warnings.append("There will be fewer copies than now.")
        table = [
            (f"{topic.name}-{index}", _joined(now[index]), _joined(replicas))
            for index, replicas in moved.items()
        ]
        work = {str(index): list(replicas) for index, replicas in moved.items()}
        columns = ("Partition", "Copies now", "Then")
        return Plan(f"Move copies of {topic.name}", lines, "Move", work, warnings, columns, table[:_ROWS_MAX])

    async def _move(self, target: Target, plan: Plan) -> Done:
        name = target["topic"]
        wanted = {(name, int(index)): replicas for index, replicas in plan.work.items()}
        refused = await self._access.call(lambda cluster: submit_moves(cluster, wanted))
        await self._access.facts.refreshed()
        if refused:
            place, why = next(iter(refused.items()))
            raise KafkaProblem(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(wanted) - len(refused)} partitions move, {len(refused)} do not: "
                f"{place[0]}-{place[1]}: {why}",
            )
        return Done(f"{len(wanted):,} partitions of {name} move.", "/brokers/moves")

    async def _plan_cancel(self, target: Target, values: Values) -> Plan:
        name = target["topic"]
        topic = await self._access.topic(name)
        indexes = [each.partition_id for each in topic.partitions]
        moves = await self._access.call(lambda cluster: find_moves(cluster, name, indexes))
        if not moves:
            raise Refused(f"No partition of {name} is being moved.")
        lines = [
            f"The moves of {len(moves):,} partitions of {name} end; what was copied for them is deleted."
        ]
        return Plan(f"Cancel moves of {name}", lines, "Cancel the moves", [list(place) for place in moves])

    async def _cancel(self, target: Target, plan: Plan) -> Done:
        name = target["topic"]

        def cancel(cluster: Cluster) -> dict[Place, str]:
            none: dict[Place, None] = dict.fromkeys(plan.work)
            return submit_moves(cluster, none)

        refused = await self._access.call(cancel)
        await self._access.facts.refreshed()
        if len(refused) == len(plan.work):
            raise KafkaProblem(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, next(iter(refused.values())))
        return Done(f"The moves of {name} were cancelled.", topic_link(name, "partitions"))


def _ids(text: str, alive: set[int]) -> list[int]:
    found: list[int] = []
    for part in text.replace(" ", ",").split(","):
        if not part:
            continue
        if not part.isdigit() or int(part[:9]) not in alive:
            there = ", ".join(map(str, sorted(alive)))
            raise Refused(f"There is no broker {part[:20]} at the moment: there are {there}.", "brokers")
        if int(part) not in found:
            found.append(int(part))
    if not found:
        raise Refused("Name at least one broker.", "brokers")
    return found


def _joined(replicas: tuple[int, ...]) -> str:
    return ", ".join(map(str, replicas))
