"""SingerSource with real processes: taps written here, which do what theirs do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sink_batches import settings_of

from moldau.connect import ConnectError, SourceContext
from moldau.connect.building import rows
from moldau.connect.connectors.singer.messages import NotSinger, message_of
from moldau.connect.connectors.singer.source import SingerSource
from moldau.connect.connectors.singer.tap import Tap

TAP = """
import json, sys
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
config = json.load(open(arguments["--config"]))
state = json.load(open(arguments["--state"])) if "--state" in arguments else {"last": 0}
def say(**message): print(json.dumps(message), flush=True)
say(type="SCHEMA", stream="users", schema={}, key_properties=["id"])
for number in range(state["last"] + 1, config["end"] + 1):
    say(type="RECORD", stream="users", record={"id": number})
    if number == config.get("dies_after"):
        print("no more", file=sys.stderr)
        sys.exit(3)
    if number % 2 == 0:
        say(type="STATE", value={"last": number})
"""


def started(tmp_path: Path, script: str = TAP, **config: Any) -> Counting:
    tap = tmp_path / "tap.py"
    tap.write_text(script)
    source = Counting()
    given = {
        "singer.executable": f"{sys.executable} {tap}",
        "singer.config": orjson.dumps(config).decode(),
        "singer.interval.ms": 0,
    }
    context = SourceContext("c", 0, lambda: False, lambda seconds: False, lambda: None)
    source.start(settings_of(SingerSource, given), context)
    return source


class Counting(SingerSource):
    """Counts how often its tap is started."""

    runs = 0

    def _command(self) -> list[str]:
        self.runs += 1
        return super()._command()


def one_run(source: Counting, offset: Any = None) -> tuple[list[Any], Any]:
    """Keys of one run, and the offset that was committed with the last of them."""
    keys: list[Any] = []
    uncommitted: list[Any] = []
    (partition,) = source.partitions()
    try:
        for read in source.read(partition, offset):
            if source.runs > 1:
                break
            if read is None:
                continue
            uncommitted += [row.key for batch in read.batches for row in rows(batch)]
            if read.ends_transaction:
                keys, uncommitted, offset = keys + uncommitted, [], read.offset
    except ConnectError as problem:
        return [*keys, str(problem)], offset
    return keys, offset


def test_records_are_committed_with_the_state_after_them(tmp_path: Path) -> None:
    assert one_run(started(tmp_path, end=4)) == ([1, 2, 3, 4], {"state": {"last": 4}})
    assert one_run(started(tmp_path, end=6), {"state": {"last": 4}}) == ([5, 6], {"state": {"last": 6}})


def test_what_comes_after_the_last_state_is_committed_at_the_end(tmp_path: Path) -> None:
    assert one_run(started(tmp_path, end=3)) == ([1, 2, 3], {"state": {"last": 2}})


def test_a_tap_that_fails_has_committed_what_its_state_covers(tmp_path: Path) -> None:
    keys, offset = one_run(started(tmp_path, end=9, dies_after=5))
    assert keys[:-1] == [1, 2, 3, 4]
    assert "ended with 3: no more" in keys[-1]
    assert offset == {"state": {"last": 4}}


def test_more_records_than_are_held_are_one_transaction_all_the_same(tmp_path: Path) -> None:
    script = TAP.replace("number % 2 == 0", "number == 2500")
    (partition,) = started(tmp_path, script, end=2500).partitions()
    reads = []
    for read in started(tmp_path, script, end=2500).read(partition, None):
        if read is not None:
            reads.append(read)
            if read.ends_transaction:
                break
    assert [read.ends_transaction for read in reads] == [False, False, True]
    assert sum(len(batch) for read in reads for batch in read.batches) == 2500


@pytest.mark.parametrize(
    ("script", "message"),
    [("print('hello')", "no message of Singer"), ('print(\'{"type": "BATCH"}\')', "switch that off")],
)
def test_what_no_tap_should_write_is_told(tmp_path: Path, script: str, message: str) -> None:
    keys, _ = one_run(started(tmp_path, script))
    assert message in keys[0]


def test_a_tap_that_is_not_there_is_told(tmp_path: Path) -> None:
    source = started(tmp_path)
    source.config = {**source.config, "singer.executable": "no-such-tap"}
    with pytest.raises(ConnectError, match="no-such-tap cannot be started"):
        next(source.read({}, None))


def test_messages_that_do_not_count_are_left_out() -> None:
    assert message_of(b"\n") is None
    assert message_of(b'{"type":"ACTIVATE_VERSION","stream":"x","version":1}') is None
    with pytest.raises(NotSinger):
        message_of(b'{"type":"RECORD","stream":"x","record":5}')


WRAPPER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
pathlib.Path(__file__).with_name("child").write_text(f"{child.pid} ")
time.sleep(300)
"""


def test_what_a_tap_has_started_ends_with_it(tmp_path: Path) -> None:
    """A script around a tap: its child holds the pipes, and would go on reading the other system."""
    script, noted = tmp_path / "wrapper.py", tmp_path / "child"
    script.write_text(WRAPPER)

    def wait_until(found: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not found():
            assert time.monotonic() < until
            time.sleep(0.02)

    with Tap([sys.executable, str(script)], {}):
        wait_until(lambda: noted.exists() and noted.read_text().endswith(" "))
    stat = Path(f"/proc/{noted.read_text().strip()}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")
