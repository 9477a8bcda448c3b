"""Changes of connectors: restart, pause, resume."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

from moldau.services.console.changes.change import Change, Done, Plan, Refused, Target, Values
from moldau.services.console.connect_client import ConnectWorkers
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

_KINDS = (
    ("restart", "Restart connector", "POST", "restart?includeTasks=true&onlyFailed=false",
     "{} and all of its tasks are restarted; they go on from their last committed offsets."),
    ("pause", "Pause connector", "PUT", "pause",
     "{} stops reading and writing until it is resumed; its tasks stay assigned."),
    ("resume", "Resume connector", "PUT", "resume", "{} goes on from its last committed offsets."),
)  # fmt: skip


class ConnectorChanges:
    """The changes, with the workers that are asked."""

    def __init__(self, workers: Sequence[ConnectWorkers]) -> None:
        self._workers = workers

    def all(self) -> list[Change]:
        """The table of them."""
        return [self._change(*each) for each in _KINDS]

    def _change(self, word: str, title: str, method: str, path: str, sentence: str) -> Change:
        at = "/connectors/{cluster}/{connector}"

        async def plan(target: Target, values: Values) -> Plan:
            name, workers = target["connector"], self._of(target)
            try:
                _, status = await asyncio.to_thread(workers.connector, name)
            except HttpProblem as problem:
                raise Refused(problem.message) from None
            state = (status.get("connector") or {}).get("state", "UNKNOWN")
            lines = [sentence.format(name), f"At this moment it is {state}."]
            return Plan(f"{title.partition(' ')[0]} {name}", lines, title, {})

        async def carry_out(target: Target, plan: Plan) -> Done:
            name = target["connector"]
            workers = self._of(target)
            way = f"/connectors/{quote(name, safe='')}/{path}"
            try:
                await asyncio.to_thread(workers.ask, method, way)
            except HttpProblem as problem:
                raise Refused(problem.message) from None
            link = f"/connectors/{target['cluster']}/{quote(name, safe='')}/status"
            return Done(f"Kafka Connect was told to {word} {name}.", link)

        summary = f"{title.partition(' ')[0]} a connector and its tasks."
        return Change(
            f"{word}-connector",
            f"{at}/{word}",
            title,
            summary,
            Operation.CONFIGURE,
            Kind.CONNECTOR,
            "connector",
            plan,
            carry_out,
            back=f"{at}/status",
        )

    def _of(self, target: Target) -> ConnectWorkers:
        text = target["cluster"]
        if not (text.isascii() and text.isdigit()) or int(text[:6]) >= len(self._workers):
            raise Refused("There is no such cluster of Kafka Connect.")
        return self._workers[int(text[:6])]
