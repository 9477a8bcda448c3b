"""Scenario a: transactional, idempotent and plain producers, while they and the broker are killed.

A ghost is a producer that is killed and never comes back: the broker alone must end its transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from torture import kills
from torture.aftermath import settled_ends
from torture.clients import ClientProcess
from torture.judge_transactions import differences, judge
from torture.kills import Kill
from torture.ledger import IDEMPOTENT, PLAIN, TRANSACTION, Attempt, read_ledger
from torture.load import Plan
from torture.raw_reading import read_by_hand
from torture.reading import Seen, Witness, read_committed
from torture.rounds import Round
from torture.seeds import generator

TOPICS = {"left": 3, "right": 2}
GHOST_TIMEOUT_MS = 3000


@dataclass(frozen=True)
class Size:
    """How much a round does."""

    producers: int = 3
    attempts: int = 40
    kills: int = 4


def run(torture: Round, size: Size, *, kill_clients: bool) -> str:
    """Torment, then judge; raises `Failure` with all complaints."""
    victim = torture.victim({})
    victim.start()
    # Transactions within a segment, and over many.
    torture.create_topics(TOPICS, internal_segment_bytes=str(torture.draw.choice((20_000, 200_000, 1 << 30))))
    loads = _loads(torture, size, kill_clients)
    witness = Witness(victim.address, TOPICS)
    for one in loads:
        one.start()
    weights = {kills.BROKER: 5.0, kills.STARTING: 3.0} | ({kills.CLIENT: 5.0} if kill_clients else {})
    # An attempt is three lines of its ledger; two of the producers write without transactions, in two lines.
    end = size.producers * size.attempts * 3
    plan = kills.schedule(generator(torture.seed, "kills"), size.kills, end, weights)

    def strike(kill: Kill) -> None:
        if kill.who == kills.CLIENT:
            one = loads[int(kill.detail * len(loads))]
            if one.kill() and not one.name.startswith("ghost"):
                one.start()
            return
        victim.kill()
        if kill.who == kills.STARTING:
            victim.kill_while_starting(0.2 + kill.detail)
            victim.kill_while_starting(0.2 + (kill.detail * 7) % 1)
        victim.start()

    done = torture.torment(loads, plan, strike)
    torture.complain_of_fallen(loads)
    ghost_wait_s = GHOST_TIMEOUT_MS / 1000 if kill_clients else 0
    ends, hanging = settled_ends(victim.address, TOPICS, 15 + ghost_wait_s)
    torture.complain(hanging)
    attempts = [one for load in loads for one in read_ledger(load.name, load.ledger)]
    seen = read_committed(victim.address, TOPICS, ends)
    torture.complain(judge(attempts, seen))
    torture.complain(differences("afterwards and all the while", seen, witness.finish(ends)))
    by_hand, wrong = read_by_hand(victim.address, ends)
    torture.complain(wrong)
    torture.complain(differences("a client's reading and one by hand", seen, by_hand))
    _once_more(torture, ends, seen)
    torture.verdict()
    return _summary(attempts, seen, done, victim.deaths)


def _loads(torture: Round, size: Size, kill_clients: bool) -> list[ClientProcess]:
    modes = {f"t{one}": TRANSACTION for one in range(size.producers)} | {"i": IDEMPOTENT, "p": PLAIN}
    if kill_clients:
        modes["ghost"] = TRANSACTION
    found = []
    for name, mode in modes.items():
        timeout_ms = torture.draw.choice((GHOST_TIMEOUT_MS, 30000))
        plan = Plan(
            torture.address,
            name,
            mode,
            torture.seed,
            size.attempts,
            tuple(TOPICS.items()),
            str(torture.folder / f"{name}.ledger"),
            size_max=torture.draw.choice((300, 3000, 30000)),
            transaction_timeout_ms=GHOST_TIMEOUT_MS if name == "ghost" else timeout_ms,
        )
        found.append(torture.client(name, "torture.load", plan.to_json()))
    return found


def _once_more(torture: Round, ends: dict[tuple[str, int], int], seen: list[Seen]) -> None:
    """After one more kill, and after a clean stop, the same bytes are there."""
    for end_it in (torture.the_victim.kill, torture.the_victim.stop):
        end_it()
        torture.the_victim.start()
        ends_now, hanging = settled_ends(torture.address, TOPICS, 15)
        torture.complain(hanging)
        if ends_now != ends:
            torture.complain([f"ends changed by a restart: {ends} became {ends_now}"])
        by_hand, wrong = read_by_hand(torture.address, ends)
        torture.complain(wrong)
        torture.complain(differences(f"before and after {end_it.__name__}", seen, by_hand))


def _summary(attempts: list[Attempt], seen: list[Seen], done: int, deaths: int) -> str:
    outcomes = [one.outcome or "killed" for one in attempts if one.mode == TRANSACTION]
    counts = ", ".join(f"{outcomes.count(one)} {one}" for one in sorted(set(outcomes)))
    return f"{len(seen)} records seen; transactions: {counts}; {done} strikes, {deaths} broker deaths"
