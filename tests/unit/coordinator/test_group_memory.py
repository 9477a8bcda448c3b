"""What groups hold is counted, as the process holds it, and bounded."""

import subprocess
import sys

import pytest
from group_world import World

from moldau.common.protocol.errors import ErrorCode

MB = 1_000_000


@pytest.fixture
def world() -> World:
    return World(moldau_client_state_max_bytes=16 * MB)


def test_large_metadata_in_many_groups_ends_in_a_refusal_that_clients_try_again(world: World) -> None:
    outcomes = []
    for number in range(40):
        call = world.join(group=f"g{number}", version=3, protocols=[("range", bytes(900_000))])
        outcomes.append(call.error)
    assert outcomes[0] is None
    assert outcomes[-1] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.client_state.used_bytes <= 12 * MB, "three quarters of the budget"
    assert world.client_state.groups.refused_count > 20
    world.close()


def test_one_group_cannot_take_it_all(world: World) -> None:
    call = world.join(version=3, protocols=[("range", bytes(2 * MB))])
    assert call.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.client_state.used_bytes == 0
    world.close()


def test_less_valuable_state_gives_way(world: World) -> None:
    sessions = world.client_state.fetch_sessions
    sessions.change(11 * MB)
    sessions.evict = lambda size_bytes: sessions.change(-size_bytes)
    for number in range(8):
        joined = world.join(group=f"g{number}", version=3, protocols=[("range", bytes(900_000))])
        assert joined.error is None, "parked"
    assert sessions.used_bytes < 11 * MB
    world.close()


def test_what_members_hold_is_counted_until_they_have_left_and_after_a_restart(world: World) -> None:
    members, generation = world.form(3, protocols=[("range", bytes(1_000))])
    counted_bytes = world.client_state.used_bytes
    assert counted_bytes > 3_000
    world.heartbeat(members[0], generation)
    assert world.client_state.used_bytes == counted_bytes
    world.restart()
    assert world.client_state.used_bytes == pytest.approx(counted_bytes, rel=0.2)
    world.leave(*members)
    left_bytes = world.client_state.used_bytes
    assert left_bytes < counted_bytes - 3_000
    world.coordinator.resigned(0)
    assert world.client_state.used_bytes == 0
    world.close()


def test_ids_that_were_given_out_are_counted_until_they_expire(world: World) -> None:
    empty = world.client_state.used_bytes
    for _ in range(100):
        world.join(session_ms=1_000)
    assert world.client_state.used_bytes > empty + 100 * 500
    pending = world.client_state.used_bytes
    world.advance(2_000)
    assert world.client_state.used_bytes < pending - 100 * 500
    world.close()


CHILD = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from group_world import World

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

world = World(moldau_client_state_max_bytes=10**12)
kind = sys.argv[2]

def join(number):
    if kind == "large metadata":
        world.join(group=f"g{number}", version=3, protocols=[("range", bytes([number % 256]) * 500_000)])
    elif kind == "many names":
        protocols = [("%06d" % n, b"%06d" % n) for n in range(1000)]
        world.join(group=f"g{number}", version=3, protocols=protocols)
    else:
        world.join(group="g", session_ms=1_000_000)

count = {"large metadata": 60, "many names": 100, "pending ids": 5000}[kind]
for number in range(count // 10):
    join(number)
before_bytes, counted_before = resident(), world.client_state.used_bytes
for number in range(count // 10, count):
    join(number)
print((world.client_state.used_bytes - counted_before) / (resident() - before_bytes))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("shape", ["large metadata", "many names", "pending ids"])
def test_the_budget_counts_what_the_process_holds(shape: str, request: pytest.FixtureRequest) -> None:
    folder = str(request.path.parent)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, folder, shape], capture_output=True, text=True, check=True, timeout=300
    )
    assert 0.8 <= float(done.stdout) <= 3, "counted bytes by bytes of growth"
