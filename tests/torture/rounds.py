"""What every round has: a seed, a folder, one broker, some clients, and a list of complaints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from confluent_kafka.admin import AdminClient, NewTopic

from torture import kills
from torture.clients import ClientProcess
from torture.kills import Kill, Stuck
from torture.seeds import generator
from torture.victim import KIND, Victim

COMPLAINTS_SHOWN = 25
Client = TypeVar("Client", bound=ClientProcess)


class Failure(AssertionError):
    """The broker broke a promise; the text says which, and how to see it again."""


class Round:
    """One round of one scenario. As a context it ends all that it started."""

    def __init__(
        self, seed: int, folder: Path, settings: Mapping[str, str] | None = None, kind: str = KIND
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.seed = seed
        self.folder = folder
        self.kind = kind
        self.draw = generator(seed, "round")
        self.complaints: list[str] = []
        self.settings = dict(settings or {})
        self._victim: Victim | None = None
        self._clients: list[ClientProcess] = []
        print(f"torture: seed {seed}, folder {folder}")

    def victim(self, settings: Mapping[str, str]) -> Victim:
        """Make the round's broker; the round's own settings (durability) go over the scenario's."""
        self._victim = Victim(self.folder / "broker", {**settings, **self.settings}, self.kind)
        return self._victim

    @property
    def the_victim(self) -> Victim:
        assert self._victim is not None
        return self._victim

    @property
    def address(self) -> str:
        return self.the_victim.address

    def client(self, name: str, module: str, plan: str) -> ClientProcess:
        return self.add_client(ClientProcess(name, module, plan, self.folder))

    def add_client(self, one: Client) -> Client:
        """Have a client ended with the round."""
        self._clients.append(one)
        return one

    def create_topics(self, topics: Mapping[str, int], **configs: str) -> None:
        """Make topics; underscores in setting names stand for dots."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        admin = AdminClient({"bootstrap.servers": self.address})
        wanted = [NewTopic(topic, count, 1, config=named) for topic, count in topics.items()]
        for future in admin.create_topics(wanted).values():
            future.result(20)

    def torment(
        self,
        loads: Sequence[ClientProcess],
        plan: Sequence[Kill],
        strike: Callable[[Kill], None],
        finished: Callable[[], bool] | None = None,
        progress: Callable[[], int] | None = None,
        stuck_after_s: float = kills.STUCK_AFTER_S,
    ) -> int:
        """Carry the kills out while the clients work; a client that hangs or falls is a complaint."""
        try:
            return kills.carry_out(
                plan,
                progress or (lambda: sum(one.progress() for one in loads)),
                strike,
                finished or (lambda: not any(one.running() for one in loads)),
                stuck_after_s=stuck_after_s,
            )
        except Stuck as stuck:
            running = [one.name for one in loads if one.running()]
            self.complain([f"{stuck}; still running: {running}"])
            for one in loads:
                one.tell_where()
            return 0

    def complain_of_fallen(self, loads: Sequence[ClientProcess]) -> None:
        """A client that ended by itself, and not well, is a mistake of the harness or of the broker."""
        self.complain([text for one in loads if (text := one.failed())])

    def complain(self, complaints: Iterable[str]) -> None:
        self.complaints += complaints

    def verdict(self) -> None:
        """Look at what the broker left and said, then raise all complaints together."""
        self.the_victim.kill()
        deadline = time.monotonic() + 5
        while (left := self.the_victim.living_children()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.complain(f"process {pid} outlives its broker by more than 5 s" for pid in left)
        self.complain(f"the broker says: {line}" for line in self.the_victim.alarms())
        if self.complaints:
            more = len(self.complaints) - COMPLAINTS_SHOWN
            shown = "\n  ".join(self.complaints[:COMPLAINTS_SHOWN]) + (
                f"\n  and {more} more" if more > 0 else ""
            )
            raise Failure(
                f"seed {self.seed}, {self.the_victim.deaths} broker deaths, {self.folder}:\n  {shown}"
            )

    def __enter__(self) -> Round:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._clients:
            one.kill()
        if self._victim is not None:
            self._victim.broker.kill()
            self._victim.end_children()
