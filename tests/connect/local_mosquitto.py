"""A real MQTT server for a test: Debian's mosquitto on a free port, with sessions that survive its
restart."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def program() -> str | None:
    """Where mosquitto is, or None."""
    return shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


class Mosquitto:
    """A server that can be killed and started again on its port."""

    def __init__(self, folder: Path, port: int, more: str) -> None:
        self._folder = folder
        self.port = port
        self.uri = f"tcp://127.0.0.1:{port}"
        folder.mkdir()
        config = f"listener {port} 127.0.0.1\npersistence true\npersistence_location {folder}/\n"
        config += "autosave_on_changes true\n"
        (folder / "conf").write_text(config + "autosave_interval 1\nuser root\n" + more)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        found = program()
        assert found is not None
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(
            [found, "-c", str(self._folder / "conf"), "-v"], stdout=log, stderr=log
        )
        log.close()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self._folder / "log").read_text()
            time.sleep(0.02)
        raise AssertionError("mosquitto did not listen within 30 s")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None


@contextmanager
def mosquitto(folder: Path, more: str = "allow_anonymous true\n") -> Iterator[Mosquitto]:
    """Started, until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Mosquitto(folder, port, more)
    server.start()
    try:
        yield server
    finally:
        server.stop()
