"""A real browser for tests: Chromium without a window, driven through two pipes (the DevTools protocol).

    with opened(url) as page:
        page.wait_until("document.title === 'x'")
        page.run("document.querySelector('button').click()")

Messages are JSON objects with a NUL byte after each. Every wait has an end: a page that does not do what a
test waits for fails it with what the page shows.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WAIT_SECONDS = 80.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # root cannot have one; the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
)


def missing() -> str | None:
    """None when there is a browser, else which is wanted."""
    if any(shutil.which(name) for name in NAMES):
        return None
    return f"no Chromium on the PATH ({', '.join(NAMES)}; Debian package chromium-headless-shell)"


_WITH_PIPES = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.closerange(5, 1024)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Page:
    """One tab; `complaints` are the browser's: errors of scripts, and what the policy refused."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.complaints: list[str] = []
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._received = bytearray()
        self._count = 0
        self._session: str | None = None

    def open(self, url: str) -> None:
        """Load a page."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, of a promise its result."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def resize(self, width: int) -> None:
        """Give the page this width in pixels."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )

    def wait_until(self, condition: str) -> Any:
        """Wait for an expression to be true; its value."""
        ends = time.monotonic() + WAIT_SECONDS
        while not (value := self.run(condition)):
            if time.monotonic() > ends:
                shown = self.run("document.body.innerText")[-2000:]
                raise AssertionError(f"not so: {condition}; {self.complaints[:5]}; {shown}")
            time.sleep(_LOOK_SECONDS)
        return value

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self._next(ends)
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self, ends: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            left = max(0.0, ends - time.monotonic())
            assert select.select([self._from_browser], [], [], left)[0], "the browser does not answer"
            data = os.read(self._from_browser, 1 << 16)
            assert data, "the browser has ended"
            self._received += data
        text, _, rest = bytes(self._received).partition(b"\0")
        self._received[:] = rest
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            details = event["params"]["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif event.get("method") == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] in ("warning", "error") and entry["source"] != "network":  # responses of 4xx
                self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")


@contextlib.contextmanager
def opened(url: str) -> Iterator[Page]:
    """A browser with a page open in it; it ends with the context, killed if need be."""
    program = next(found for name in NAMES if (found := shutil.which(name)))
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = _started(program, Path(folder), to_browser[0], from_browser[1])
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            page = Page(to_browser[1], from_browser[0])
            page.open(url)
            yield page
        finally:
            os.close(to_browser[1])  # the browser's sign to end
            os.close(from_browser[0])
            try:
                browser.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait(_STOP_SECONDS)


def _started(program: str, folder: Path, reads: int, writes: int) -> subprocess.Popen[bytes]:
    """The browser; it reads messages from descriptor 3 and writes them to 4."""
    command = [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    return subprocess.Popen(
        [sys.executable, "-c", _WITH_PIPES, str(reads), str(writes), *command],
        pass_fds=(reads, writes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )
