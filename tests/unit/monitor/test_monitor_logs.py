"""One line a message, whatever a client puts into it; repeated messages are said once and counted."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from kept import kept

from moldau.common.core.clock import ManualClock
from moldau.common.core.logs import SayOnce, set_up


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger("moldau")
    before = list(root.handlers), root.level, root.propagate
    yield
    root.handlers, root.level, root.propagate = before


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def listener() -> tuple[logging.Logger, list[str]]:
    log = logging.Logger("test")
    lines = Lines()
    log.addHandler(lines)
    return log, lines.lines


def test_a_message_is_one_line_even_if_a_client_chose_its_words() -> None:
    out = io.StringIO()
    set_up("INFO", stream=out)
    logging.getLogger("moldau.server").info("client %s", "x\n2026 ERROR fake\x1b[31m")
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith(" INFO moldau.server: client x\\n2026 ERROR fake\\x1b[31m\n")


def test_a_traceback_follows_indented() -> None:
    out = io.StringIO()
    set_up("INFO", stream=out)
    try:
        raise KeyError("k")
    except KeyError:
        logging.getLogger("moldau.x").exception("a bug")
    first, *rest = out.getvalue().splitlines()
    assert first.endswith("ERROR moldau.x: a bug")
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_json_lines_parse() -> None:
    out = io.StringIO()
    set_up("debug", as_json=True, stream=out)
    logging.getLogger("moldau.node").debug("two\nlines")
    line = json.loads(out.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("DEBUG", "moldau.node", "two\nlines")


def test_set_up_again_replaces_and_an_unknown_level_is_refused() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up("INFO", stream=first)
    set_up("WARNING", stream=second)
    logging.getLogger("moldau.a").info("quiet")
    logging.getLogger("moldau.a").warning("loud")
    assert first.getvalue() == ""
    assert "loud" in second.getvalue()
    assert "quiet" not in second.getvalue()
    with pytest.raises(ValueError, match="LOUD"):
        set_up("LOUD")


def test_the_same_is_said_once_and_counted() -> None:
    clock = ManualClock()
    log, lines = listener()
    say = SayOnce(log, interval_ms=1000, now_ms=clock.monotonic_ms)
    for _ in range(5):
        say.warning(("10.0.0.1", "frame"), "bad frame from %s", "10.0.0.1")
    say.warning(("10.0.0.2", "frame"), "bad frame from %s", "10.0.0.2")
    assert lines == ["bad frame from 10.0.0.1", "bad frame from 10.0.0.2"]
    clock.advance(1500)
    assert say.warning(("10.0.0.1", "frame"), "bad frame from %s", "10.0.0.1")
    assert lines[-1] == "bad frame from 10.0.0.1 (and 4 more times since it was last said, 2 s ago)"


def test_memory_and_lines_are_bounded_whatever_kinds_come() -> None:
    clock = ManualClock()
    log, lines = listener()
    say = SayOnce(log, interval_ms=1000, kinds_max=3, lines_max=5, now_ms=clock.monotonic_ms)
    for kind in range(1000):
        say.warning(kind, "kind %d", kind)
    assert len(lines) == 5
    assert kept(say) == 3
    clock.advance(1000)
    say.warning("new", "new")
    assert lines[5:] == ["995 further messages like the ones above were left out", "new"]
