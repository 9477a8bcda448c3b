"""The judges of a cluster's round that do not look at histories alone: each has something that must fail."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from histories.history import ACKNOWLEDGED, History, Send

from torture.cluster_judge import judge_copies, judge_replicas, longest_pauses
from torture.cluster_proxy import Cable


def read(originals: list[str], copies: list[str]) -> History:
    history = History()
    history.final["in", 0] = list(enumerate(originals))
    history.final["out", 0] = list(enumerate(copies))
    return history


def test_each_record_is_copied_once() -> None:
    assert list(judge_copies(read(["a", "b"], ["x:a", "y:b"]), "in", "out")) == []
    assert "1 records were not copied: b" in next(judge_copies(read(["a", "b"], ["x:a"]), "in", "out"))
    assert "more than once: a (2)" in next(judge_copies(read(["a"], ["x:a", "y:a"]), "in", "out"))
    assert "never committed: c" in next(judge_copies(read(["a"], ["x:a", "y:c"]), "in", "out"))


def test_replicas_are_equal_however_their_segments_are_cut(tmp_path: Path) -> None:
    folders = {node: tmp_path / str(node) for node in (1, 2)}
    for folder in folders.values():
        (folder / "in-0").mkdir(parents=True)
    (folders[1] / "in-0" / "00.log").write_bytes(b"abcd")
    (folders[2] / "in-0" / "00.log").write_bytes(b"ab")
    (folders[2] / "in-0" / "02.log").write_bytes(b"cd")
    assert list(judge_replicas(folders, [("in", 0)])) == []
    (folders[2] / "in-0" / "02.log").write_bytes(b"cX")
    assert "brokers 1 and 2 differ from byte 3 on" in next(judge_replicas(folders, [("in", 0)]))
    (folders[2] / "in-0" / "02.log").write_bytes(b"")
    assert "from byte 2 on (4 and 2 bytes)" in next(judge_replicas(folders, [("in", 0)]))
    assert "lies on brokers [] only" in next(judge_replicas(folders, [("in", 1)]))


def test_the_longest_pause_of_each_partition() -> None:
    sends = [
        Send("p", number, ("in", 0), f"v{number}", outcome=ACKNOWLEDGED, ended_s=at)
        for number, at in enumerate((3.0, 1.0, 2.0, 7.5))
    ]
    assert longest_pauses(History(sends=sends), "in") == {("in", 0): 4.5}


def test_a_cut_cable_passes_nothing_and_closes_what_hung_when_it_heals() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        cable = Cable(("127.0.0.1", server.getsockname()[1]))
        with socket.create_connection(("127.0.0.1", cable.port), 30) as client:
            inside, _ = server.accept()
            client.sendall(b"one")
            assert inside.recv(10) == b"one"
            cable.cut()
            client.sendall(b"two")
            with socket.create_connection(("127.0.0.1", cable.port), 30):
                inside.settimeout(0.2)
                try:
                    passed = inside.recv(10)
                except TimeoutError:
                    passed = b""
                assert passed == b""
                cable.heal()
                inside.settimeout(30)
                with contextlib.suppress(ConnectionResetError):
                    assert inside.recv(10) in (b"", b"two")
        inside.close()
        cable.close()
