"""Random schedules of members of both protocols: clients that keep the rules of their protocol, at random
times.

Each `Actor` is a client. It knows what it was told and what it really consumes (`owned`), and chooses its
next line for `mixed_script.Script`. A `Schedule` draws whose turn it is from a seed, so the same seed gives
the same schedule as long as the answers are the same; that is how two coordinators are compared.

    Actor        classic, eager or cooperative, led or leading, static or not
    ConsumerActor  KIP-848
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from mixed_script import WAITS, Script, parse

PARTITIONS = 12
TOPIC = "a"

REJOIN = ("REBALANCE_IN_PROGRESS",)
FORGOTTEN = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH")
TRY_AGAIN = ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")


def shown(partitions: set[int]) -> str:
    """Partitions in the script's words."""
    return TOPIC + "".join(f"{index:x}" for index in sorted(partitions)) if partitions else "-"


_SHARE = re.compile(rf"(?<![a-z0-9]){TOPIC}[0-9a-f]+(?![a-z0-9])")


def masked(text: str) -> str:
    """A line or an answer without what coordinators may choose: which partitions (not how many) a member
    gets, and who leads a classic group that was a consumer group."""
    text = re.sub(r" leads [^ ;]+", "", text)
    return _SHARE.sub(lambda match: f"{TOPIC}*{len(match[0]) - 1}", text)


def without_epochs(line: str, answer: str) -> tuple[str, str]:
    """A line with its answer, masked, without shares and epochs: what is left must be everybody's."""
    said = re.sub(r" \d+\b", " #", re.sub(r" \S+=\S+", "", masked(line)))
    return said, re.sub(r"(^|: )\d+\b", r"\1#", masked(answer))


class Fatal(AssertionError):
    """A client was told something that ends it."""


@dataclass
class Actor:
    """A client of the classic protocol."""

    name: str
    cooperative: bool
    instance: str | None = None
    state: str = "out"  # out, joining, joined, syncing, stable, gone
    owned: set[int] = field(default_factory=set)
    leads: list[str] = field(default_factory=list)
    fresh: bool = True
    classic = True

    @property
    def waits(self) -> bool:
        return self.state in ("joining", "syncing")

    def line(self, schedule: "Schedule") -> str:
        """What the client sends next."""
        if self.state == "out":
            self.state = "joining"
            if not self.cooperative:
                self.owned = set()
            words = [self.name, "join"]
            if self.fresh:
                words.append("new")
            if self.instance is not None:
                words.append(f"as={self.instance}")
            if self.owned:
                words.append(f"has={shown(self.owned)}")
            return " ".join(words)
        if self.state == "joined":
            self.state = "syncing"
            return " ".join([self.name, "sync", *self._shares(schedule)])
        return f"{self.name} beat"

    def _shares(self, schedule: "Schedule") -> list[str]:
        """What a leader assigns: even shares; of what another cooperative member has, nothing yet."""
        if not self.leads:
            return []
        shares: dict[str, set[int]] = {name: set() for name in self.leads}
        had = {
            index: name
            for name in self.leads
            if name in schedule.actors
            for index in schedule.actors[name].owned
        }
        quota = {name: PARTITIONS // len(shares) for name in shares}
        for extra in self.leads[: PARTITIONS % len(shares)]:
            quota[extra] += 1
        for index, name in sorted(had.items()):
            if len(shares[name]) < quota[name]:
                shares[name].add(index)
        taken = set().union(*shares.values())
        for index in range(PARTITIONS):
            if index in taken:
                continue
            name = next(name for name in shares if len(shares[name]) < quota[name])
            shares[name].add(index)
        for name, share in shares.items():
            share -= {index for index in share if had.get(index, name) != name}
        return [f"{name}={shown(share)}" for name, share in shares.items()]

    def told(self, answer: str) -> None:
        """Take an answer in."""
        word, *rest = answer.split(" ")
        if word in TRY_AGAIN:
            self.state = "out" if self.waits else self.state
        elif word in REJOIN:
            self.state = "out"
        elif word in FORGOTTEN:
            if self.state == "joining" or word == "UNKNOWN_MEMBER_ID":
                self.fresh = True
            self.state, self.owned = "out", set()
        elif word == "FENCED_INSTANCE_ID":
            self.state, self.owned = "gone", set()
        elif self.state == "joining":
            if not word.isdigit():
                raise Fatal(f"{self.name}: {answer}")
            self.fresh = False
            self.state = "joined"
            self.leads = rest[1].split(",") if rest else []
        elif self.state == "syncing":
            before, self.owned = self.owned, set(parse(word).get(TOPIC, []))
            # A cooperative member that had to give something up joins again, so that others get it.
            self.state = "out" if self.cooperative and before - self.owned else "stable"
        elif word != "ok":
            raise Fatal(f"{self.name}: {answer}")

    def leaving(self) -> str | None:
        """How the client says goodbye; None if nobody would understand it."""
        if self.fresh or self.waits or self.state == "gone":
            return None
        self.state, self.owned = "gone", set()
        return f"{self.name} leave"


@dataclass
class ConsumerActor:
    """A client of the consumer protocol."""

    name: str
    instance: str | None = None
    epoch: int = 0
    owned: set[int] = field(default_factory=set)
    assigned: set[int] = field(default_factory=set)
    gone: bool = False
    waits = False
    classic = False

    @property
    def state(self) -> str:
        return "gone" if self.gone else "stable"

    def line(self, schedule: "Schedule") -> str:
        """What the client sends next. It gives up what was taken from it at some later turn."""
        words = [self.name, str(self.epoch)]
        if self.owned != self.assigned and schedule.random.random() < 0.7:
            self.owned = set(self.assigned)
            words.append(f"has={shown(self.owned)}")
        elif self.epoch and schedule.random.random() < 0.3:
            words.append(f"has={shown(self.owned)}")
        if self.instance is not None:
            words.append(f"as={self.instance}")
        return " ".join(words)

    def told(self, answer: str) -> None:
        """Take an answer in."""
        word, *rest = answer.split(" ")
        if word in TRY_AGAIN:
            return
        if word in FORGOTTEN:
            self.epoch, self.owned, self.assigned = 0, set(), set()
        elif word == "FENCED_INSTANCE_ID" or (word == "UNRELEASED_INSTANCE_ID" and self.instance):
            self.gone, self.owned, self.assigned = True, set(), set()
        elif word.lstrip("-").isdigit():
            self.epoch = int(word)
            if rest:
                self.assigned = set(parse(rest[0]).get(TOPIC, []))
        else:
            raise Fatal(f"{self.name}: {answer}")

    def leaving(self) -> str | None:
        """How the client says goodbye."""
        if self.epoch <= 0 or self.gone:
            return None
        self.gone, self.owned, self.assigned = True, set(), set()
        suffix = "" if self.instance is None else f" as={self.instance}"
        return f"{self.name} -1{suffix}"


AnyActor = Actor | ConsumerActor


class Schedule:
    """Draws lines from a seed and runs them. `log` holds every line with its answer."""

    MEMBERS_MAX = 4

    def __init__(self, seed: int, script: Script, *, static: bool = True) -> None:
        self.random = random.Random(seed)
        self.script = script
        self.actors: dict[str, AnyActor] = {}
        self.cooperative = self.random.random() < 0.5
        self.log: list[tuple[str, str]] = []
        self._static = static
        self._expected: dict[str, str] = {}
        self._number = 0

    def living(self) -> list[AnyActor]:
        """The clients that have not gone."""
        return [actor for actor in self.actors.values() if actor.state != "gone"]

    def prompt_step(self, expected: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """One line of somebody; if it completes a classic rebalance, all fetch their assignments at once, the
        leader first, because coordinators may choose another leader. `expected` are another coordinator's
        lines and answers in this step. Returns those of this one, in the order of the callers."""
        before = len(self.log)
        self._expected = {line.split()[0]: answer for line, answer in expected}
        self.step()
        joined = [actor for actor in self.living() if isinstance(actor, Actor) and actor.state == "joined"]
        if any(actor.leads for actor in joined):
            for actor in sorted(joined, key=lambda actor: (not actor.leads, actor.name)):
                self.run(actor.line(self))
        self._expected = {}
        return sorted(without_epochs(line, answer) for line, answer in self.log[before:])

    def step(self, expected: str | None = None) -> None:
        """One line of somebody."""
        choice = self.random.random()
        living = self.living()
        if (choice < 0.10 and len(living) < self.MEMBERS_MAX) or not living:
            self.run(self._newcomer().line(self), expected)
        elif choice < 0.15:
            actor = self.random.choice(living)
            line = actor.leaving()
            if line is not None:
                self.run(line, expected)
        else:
            able = [actor for actor in living if not actor.waits]
            if able:
                self.run(self.random.choice(able).line(self), expected)

    def _newcomer(self) -> AnyActor:
        self._number += 1
        instance = None
        if self._static and self.random.random() < 0.3:
            instance = self.random.choice(["i1", "i2"])
        classic = self.random.random() < 0.5
        if classic:
            actor: AnyActor = Actor(
                f"C{'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[self._number % 26]}{self._number}".upper(),
                self.cooperative,
                instance,
            )
        else:
            actor = ConsumerActor(f"m{self._number}", instance)
        self.actors[actor.name] = actor
        return actor

    def run(self, line: str, expected: str | None = None) -> str:
        """Run a line, and tell everybody concerned."""
        answer = self.script.run(line, expected or self._expected.get(line.split(maxsplit=1)[0]))
        self.log.append((line, answer))
        own, *others = answer.split("; ")
        caller = line.split(maxsplit=1)[0]
        if own != WAITS and caller in self.actors and self.actors[caller].state != "gone":
            self.actors[caller].told(own)
        for other in others:
            name, _, word = other.partition(": ")
            if self.actors[name].state != "gone":
                self.actors[name].told(word)
        return answer

    def round(self) -> None:
        """Everybody who can speaks once, as diligent clients do."""
        for actor in self.living():
            if not actor.waits:
                self.run(actor.line(self))
