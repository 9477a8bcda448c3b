"""A MariaDB of a test's own, on a Unix socket, with a binlog of rows; skips where none is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/local/bin"])
START_SECONDS = 60


def missing() -> str:
    """Why the tests cannot run here, or nothing."""
    for command in ("mariadbd", "mariadb-install-db"):
        if shutil.which(command, path=_PLACES) is None:
            return f"{command} is not on the PATH (Debian package mariadb-server)"
    try:
        __import__("pymysql")
    except ImportError:
        return "pymysql is not installed (the extra dev brings it)"
    return ""


class Mariadb:
    """A server in a folder; user `moldau` without a password, database `shop`."""

    def __init__(self, folder: Path, server_id: int = 1) -> None:
        self.folder = folder
        self.server_id = server_id
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as found:  # the binlog's readers take no Unix socket
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self.url = f"mysql+pymysql://moldau@127.0.0.1:{self.port}/shop?charset=utf8mb4"

    def _user(self) -> str | None:
        return "nobody" if os.geteuid() == 0 else None

    def make(self) -> None:
        program = shutil.which("mariadb-install-db", path=_PLACES)
        assert program
        with (self.folder / "install.log").open("wb") as out:
            subprocess.run(
                [
                    program,
                    "--no-defaults",
                    f"--datadir={self.folder}/data",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ],
                check=True,
                stdout=out,
                stderr=out,
                user=self._user(),
                cwd=self.folder,
            )

    def start(self) -> None:
        program = shutil.which("mariadbd", path=_PLACES)
        assert program
        with (self.folder / "server.log").open("ab") as out:
            self.process = subprocess.Popen(
                [
                    program,
                    "--no-defaults",
                    f"--datadir={self.folder}/data",
                    f"--socket={self.folder}/s",
                    f"--pid-file={self.folder}/pid",
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    f"--server-id={self.server_id}",
                    "--log-slave-updates",
                    "--log-bin=binlog",
                    "--binlog-format=ROW",
                    "--binlog-row-image=FULL",
                    "--binlog-row-metadata=FULL",
                    "--innodb-flush-log-at-trx-commit=0",
                    "--innodb-buffer-pool-size=16M",
                    "--character-set-server=utf8mb4",
                ],
                stdout=out,
                stderr=out,
                user=self._user(),
                cwd=self.folder,
            )
        self._wait()

    def _wait(self) -> None:
        import pymysql

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with pymysql.connect(unix_socket=f"{self.folder}/s", user="root") as connection:
                    with connection.cursor() as cursor:
                        cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
                        cursor.execute("CREATE USER IF NOT EXISTS 'moldau'@'%'")
                        cursor.execute("GRANT ALL ON *.* TO 'moldau'@'%'")
                    return
            except pymysql.err.OperationalError:
                assert self.process is not None
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """As a crash."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def running_mariadb(server_id: int = 1) -> Iterator[Mariadb]:
    """A started server; skips where there can be none."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="mmd", dir="/tmp"))  # short: it holds a Unix socket
    folder.chmod(0o777)
    server = Mariadb(folder, server_id)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
