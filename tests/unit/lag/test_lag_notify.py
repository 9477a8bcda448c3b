"""When notifiers speak, what they say, and over which wire."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from moldau.common.settings.rows import SettingError
from moldau.services.lag.notify.channels import NotDelivered, channel_of
from moldau.services.lag.notify.incidents import Incidents, Notice, Rule
from moldau.services.lag.notify.messages import plain_text, template_of
from moldau.services.lag.notify.notifier import Notifier
from moldau.services.lag.settings import NotifierSettings
from moldau.services.lag.store import ClusterStore, Limits
from moldau.services.lag.verdicts import Verdict

ORDERS = ("orders", 0)


def incidents(**rule: Any) -> Incidents:
    numbers = iter(range(100))
    return Incidents(Rule(**rule), lambda: f"id-{next(numbers)}")


def test_an_incident_is_told_again_after_its_interval_and_closed() -> None:
    found = incidents(send_interval=60.0, send_close=True)
    told = []
    for second, verdict in ((0, 3), (30, 3), (60, 3), (70, 1), (80, 1), (90, 2)):
        notice = found.look("east", "billing", Verdict(verdict), second * 1000)
        if notice is not None:
            found.sent("east", "billing", notice, second * 1000)
            told.append((second, notice))
    assert told == [
        (0, Notice("id-0", 0, False)),
        (60, Notice("id-0", 0, False)),
        (70, Notice("id-0", 0, True)),
        (90, Notice("id-1", 90_000, False)),
    ]


def test_what_was_not_delivered_is_told_again_and_closed_only_if_it_was_told() -> None:
    found = incidents(send_interval=60.0, send_close=True)
    assert found.look("east", "billing", Verdict.ERR, 0) is not None
    assert found.look("east", "billing", Verdict.ERR, 10_000) == Notice("id-0", 0, False)
    assert found.look("east", "billing", Verdict.OK, 20_000) is None


def test_once_and_from_a_threshold_on() -> None:
    found = incidents(send_interval=1.0, send_once=True, threshold=3)
    assert found.look("east", "billing", Verdict.WARN, 0) is None
    notice = found.look("east", "billing", Verdict.ERR, 5000)
    assert notice == Notice("id-0", 0, False)  # it began with the warning
    found.sent("east", "billing", notice, 5000)
    assert found.look("east", "billing", Verdict.ERR, 500_000) is None


class Recorder(BaseHTTPRequestHandler):
    """Keeps what it is sent; answers what the server says."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        status, answer = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_DELETE = do_POST

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def http() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.seen, server.answer = [], (200, b"{}")
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def stopped_store(group: str = "billing") -> ClusterStore:
    """A group has stopped at 812 of 900; the clock stands at 1,000 s."""
    store = ClusterStore("east", Limits(intervals=4, stop_after_ms=0))
    store.saw_ends({ORDERS: 900}, 0)
    for second in range(4):
        store.commit(group, ORDERS, 812, second * 1000, second * 1000)
    return store


def notifier(kind: str, store: ClusterStore, now: list[float], **given: Any) -> Notifier:
    settings = NotifierSettings("pager", kind, {"send-close": True, **given})
    return Notifier(settings, [store], clock=lambda: now[0], make_id=lambda: "incident-1")


def test_a_webhook_hears_of_it_and_of_its_end(http: Any) -> None:
    store, now = stopped_store(), [1000.0]
    pager = notifier(
        "http",
        store,
        now,
        **{
            "url-open": f"{http.url}/open",
            "url-close": f"{http.url}/close",
            "method-close": "delete",
            "headers": {"X-Key": "k"},
            "extras": {"team": "data"},
        },
    )
    pager.look()
    pager.look()
    path, headers, body = http.seen[0]
    document = json.loads(body)
    assert len(http.seen) == 1
    assert (path, headers["X-Key"], document["status"], document["id"]) == ("/open", "k", "ERR", "incident-1")
    assert document["partitions"][0]["status"] == "STOP"
    assert document["extras"] == {"team": "data"}
    store.commit("billing", ORDERS, 900, 1_000_000, 1_000_000)
    pager.look()
    assert [each[0] for each in http.seen] == ["/open", "/close"]
    assert pager.delivered == 2


def test_a_group_that_is_deleted_closes_its_incident(http: Any) -> None:
    store = stopped_store()
    pager = notifier("http", store, [1000.0], **{"url-open": f"{http.url}/n"})
    pager.look()
    store.delete_group("billing")
    pager.look()
    pager.look()
    assert [json.loads(body)["closes"] for _, _, body in http.seen] == [False, True]


def test_a_webhook_that_refuses_is_asked_again_and_its_address_is_no_ones_business(
    http: Any, caplog: pytest.LogCaptureFixture
) -> None:
    http.answer = (503, b"")
    pager = notifier("http", stopped_store(), [1000.0], **{"url-open": f"{http.url}/secret-path"})
    pager.look()
    http.answer = (200, b"")
    pager.look()
    assert (len(http.seen), pager.failed, pager.delivered) == (2, 1, 1)
    assert "answers 503" in caplog.text
    assert "secret-path" not in caplog.text


def test_a_login_is_not_sent_where_an_answer_points(http: Any) -> None:
    http.answer = (302, b"")
    pager = notifier("http", stopped_store(), [1000.0], **{"url-open": f"{http.url}/n"})
    pager.look()
    assert ([each[0] for each in http.seen], pager.failed) == (["/n"], 1)


def test_slacks_form(http: Any) -> None:
    given = {"webhook": f"{http.url}/services/T", "channel": "#lag", "icon-emoji": ":snail:"}
    notifier("slack", stopped_store(), [1000.0], **given).look()
    form = json.loads(http.seen[0][2])
    assert (form["channel"], form["icon_emoji"]) == ("#lag", ":snail:")
    assert "orders-0 has committed nothing since offset 812" in form["text"]


def test_a_groups_name_calls_nobody_in_slack(http: Any) -> None:
    found = stopped_store("<!channel> & <https://evil.example|click>")
    notifier("slack", found, [1000.0], webhook=f"{http.url}/services/T").look()
    text = json.loads(http.seen[0][2])["text"]
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|click&gt;" in text


class Mail(socketserver.StreamRequestHandler):
    """As much of SMTP as one mail needs."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                text = b""
                while (line := self.rfile.readline()) != b".\r\n":
                    text += line
                self.server.mails.append(text.decode())  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
            if verb == b"QUIT":
                return


def test_a_mail_arrives_with_a_subject_of_one_line() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail) as server:
        server.mails = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        store = stopped_store()
        store.commit("bad\nSubject: x", ORDERS, 1, 0, 0)
        given = {"server": "127.0.0.1", "port": server.server_address[1], "from": "a@x", "to": "b@x, c@x"}
        pager = notifier("email", store, [1000.0], **given)
        pager.look()
        server.shutdown()
        mails = server.mails  # type: ignore[attr-defined]
    assert pager.delivered == 2
    assert "Subject: [east] bad Subject: x: ERR" in mails[0]
    assert "To: b@x, c@x" in mails[1]
    assert "offset 812" in mails[1]


def test_templates_are_jinja_in_a_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "open.tmpl"
    path.write_text('{"text": {{ sentence|json }}, "n": {{ partitions|length }}}')
    text = template_of(str(path), "template-open")
    assert json.loads(text({"sentence": 'a "b"', "partitions": [1, 2]})) == {"text": 'a "b"', "n": 2}
    path.write_text("{{ ().__class__.__bases__[0].__subclasses__() }}")
    with pytest.raises(Exception, match="unsafe"):
        template_of(str(path), "template-open")({})
    path.write_text("{% for x in range(99999) %}{% for y in range(999) %}aaaaaaaaaa{% endfor %}{% endfor %}")
    with pytest.raises(ValueError, match="more than"):
        template_of(str(path), "template-open")({})
    path.write_text("{{.Cluster}} {{range .Partitions}}x{{end}}")
    with pytest.raises(SettingError, match="rewritten in Jinja2"):
        template_of(str(path), "template-open")


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("http", {}, "url-open is no http"),
        ("http", {"url-open": "file:///etc/passwd"}, "url-open is no http"),
        ("http", {"url-open": "http://x", "noverify": True}, "always checked"),
        ("slack", {"token": "t"}, "needs a webhook"),
        ("email", {"server": "x", "from": "y"}, "names no to"),
    ],
)
def test_a_wrong_setting_is_said_at_the_start(kind: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        channel_of("pager", kind, given)


def test_nobody_there_is_a_sentence() -> None:
    deliver = channel_of("pager", "http", {"url-open": "http://127.0.0.1:9/x", "timeout": 2})
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1 cannot be reached"):
        deliver({"closes": False})


def test_long_lists_are_cut() -> None:
    rows = [{"status": "STOP", "sentence": str(number)} for number in range(50)]
    facts = {
        "closes": False,
        "status": "ERR",
        "start": "now",
        "cluster": "c",
        "sentence": "s",
        "partitions": rows,
    }
    assert plain_text(facts).endswith("and 30 partitions more")
