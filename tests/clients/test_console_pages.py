"""The console in a real browser: every page at two widths, light and dark, without a complaint of the
browser's or of axe; what people do; and texts that look for trouble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import headless_browser
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from console_server import TROUBLE, connect_workers, console, filled
from headless_browser import Page

from moldau.testing import Broker, SchemaRegistry

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(headless_browser.missing() is not None, reason=str(headless_browser.missing())),
]

AXE = (Path(__file__).parent / "vendor" / "axe-4.14.1.min.js").read_text()
VIOLATIONS = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(
    each => each.id + ": " + each.nodes.slice(0, 3).map(node => node.target + node.failureSummary).join()))"""
CUT_OFF = "document.documentElement.scrollWidth > innerWidth + 1"
LOADED = (
    "document.readyState === 'complete' && typeof htmx !== 'undefined' && location.href !== 'about:blank'"
)

PAGES = {
    "overview": "/",
    "timeline": "/timeline",
    "topics": "/topics?internal=1",
    "topics-none": "/topics?q=nothing-has-this-name",
    "messages": "/topics/orders/messages?limit=100",
    "messages-filtered": '/topics/orders/messages?filter=value.amount+>+100+and+key+startswith+"eu-"',
    "messages-wrong": "/topics/orders/messages?filter=open(1)",
    "messages-empty": "/topics/empty/messages",
    "message": "/topics/orders/messages/0/20",
    "partitions": "/topics/orders/partitions",
    "settings": "/topics/customers/settings",
    "readers": "/topics/orders/readers",
    "producers": "/topics/orders/producers",
    "groups": "/groups?sort=-lag",
    "lag": "/groups/billing/lag",
    "lag-trouble": f"/groups/{quote(TROUBLE, safe='')}/lag",
    "members": "/groups/billing/members",
    "brokers": "/brokers",
    "moves": "/brokers/moves",
    "move": "/topics/orders/move",
    "broker": "/brokers/1/settings",
    "directories": "/brokers/1/directories",
    "transactions": "/transactions?all=1",
    "audit": "/audit",
    "schemas": "/schemas",
    "schema-versions": "/schemas/orders-value/versions?left=1&right=2",
    "connectors": "/connectors",
    "connector": "/connectors/0/orders-to-pg/status",
    "pause": "/connectors/0/orders-to-pg/pause",
    "acls": "/security/acls",
    "why": "/security/why?principal=alice&name=orders",
    "users": "/security/users",
    "quotas": "/security/quotas",
    "create": "/topics/create",
    "produce": "/topics/orders/produce",
    "delete": "/topics/orders/delete",
    "reset": "/groups/billing/reset",
    "unknown": "/nothing-here",
    "unknown-topic": f"/topics/{quote(TROUBLE, safe='')}/messages",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        filled(started)
        yield started


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[str]:
    with SchemaRegistry(broker) as started:
        client = SchemaRegistryClient({"url": started.url})
        field = {"name": "id", "type": "long", "doc": TROUBLE}
        for more in ([], [{"name": "note", "type": "string", "default": ""}]):
            schema = {"type": "record", "name": "Order", "doc": TROUBLE, "fields": [field, *more]}
            client.register_schema("orders-value", Schema(json.dumps(schema), "AVRO"))
        yield started.url


@pytest.fixture(scope="module")
def connect() -> Iterator[tuple[str, list[str]]]:
    with connect_workers() as found:
        yield found


@pytest.fixture(scope="module")
def url(broker: Broker, registry: str, connect: tuple[str, list[str]]) -> Iterator[str]:
    settings = {
        "moldau.console.allow.changes": "true",
        "moldau.console.mask": "orders:value.user.card",
        "moldau.console.connect.urls": connect[0],
        "schema.registry.url": registry,
    }
    with console(broker, **settings) as address:
        yield address


@pytest.fixture(scope="module")
def browser_page(url: str) -> Iterator[Page]:
    with headless_browser.opened(url) as page:
        page.wait_until(LOADED)
        page.wait_until("document.querySelectorAll('table.rows tr').length > 0")  # groups are known
        yield page


@pytest.fixture
def page(browser_page: Page) -> Iterator[Page]:
    browser_page.resize(1280)
    yield browser_page
    complaints, browser_page.complaints = browser_page.complaints, []
    assert complaints == []


def go(page: Page, url: str, path: str) -> None:
    """Open a page, and wait until it is there."""
    page.run("window.before = true")
    page.run(f"void (location.href = {json.dumps(url + path)})")
    page.wait_until(f"window.before === undefined && {LOADED}")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_whole(page: Page, url: str, name: str) -> None:
    for scheme in ("light", "dark"):
        page._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        go(page, url, PAGES[name])
        page.run(f"{AXE}; 1")
        for width in (1280, 400):
            page.resize(width)
            page.wait_until(f"innerWidth === {width}")
            assert not page.run(CUT_OFF), (scheme, width)
            assert page.run(VIOLATIONS) == [], (scheme, width)
    assert page.run("document.title") != "pwned"
    assert page.run("document.querySelectorAll('main img, main script').length") == 0


def test_search_as_one_types_keeps_the_state_in_the_url(page: Page, url: str) -> None:
    go(page, url, "/topics")
    page.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true}))")
    assert page.run("document.activeElement.id") == "q"
    page.run(
        "document.activeElement.value = 'ord';"
        "document.activeElement.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    page.wait_until("document.querySelectorAll('#live a.row').length === 1")
    page.wait_until("location.search.includes('q=ord')")
    assert page.run("document.activeElement.id") == "q", "the field is typed in on"
    page.run("document.activeElement.blur()")
    for key in "gg":
        page.run(f"document.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")
    page.wait_until("location.pathname === '/groups'")


def test_a_record_opens_beside_the_list_and_hides_what_is_masked(page: Page, url: str) -> None:
    go(page, url, "/topics/orders/messages?partition=0&limit=100")
    page.run("document.querySelector('a[data-panel][href$=\"/0/19\"]').click()")
    page.wait_until(
        "document.getElementById('panel').open && !!document.querySelector('#detail [data-coloured]')"
    )
    shown = page.run("document.getElementById('detail').innerText")
    assert '"card": "•••"' in shown
    assert "4711" not in shown
    assert "t-57" in shown
    page.run("document.querySelector('#panel .close').click()")
    assert not page.run("document.getElementById('panel').open")


def test_texts_that_look_for_trouble_are_text(page: Page, url: str) -> None:
    go(page, url, "/topics/orders/messages/0/20")
    shown = page.run("document.getElementById('record').innerText")
    assert shown.count("<script>document.title='pwned'</script>{{7*7}}") >= 3, "key, value, header"
    go(page, url, "/topics/orders/messages?partition=0&q=onerror")
    assert "onerror" in page.run("document.getElementById('rows').innerText")
    assert page.run("document.title") != "pwned"


def test_live_records_come_in_above(page: Page, url: str, broker: Broker) -> None:
    from confluent_kafka import Producer

    go(page, url, "/topics/orders/messages?live=1&limit=25")
    page.wait_until("/connected|looked/.test(document.getElementById('tail-state').textContent)")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", TROUBLE, "live-record", 0)
    producer.flush()
    page.wait_until("document.querySelector('#rows tr').innerText.includes('live-record')")
    assert page.run("document.querySelectorAll('#rows img').length") == 0
    go(page, url, "/")


def test_a_change_is_shown_before_it_is_done(page: Page, url: str) -> None:
    go(page, url, "/topics/create")
    page.run("document.getElementById('f-name').value = 'made.here'")
    page.run("document.getElementById('f-partitions').value = '2'")
    page.run("document.getElementById('f-settings').value = 'retention.ms=1000'")
    page.run("window.before = true")
    page.run("document.querySelector('button[value=preview]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert "made.here is created with 2 partitions" in page.run("document.querySelector('.plan').innerText")
    names = "fetch('/topics.json').then(one => one.json()).then(all => all.rows.map(row => row.name))"
    assert "made.here" not in page.run(names)
    page.run("window.before = true")
    page.run("document.querySelector('button[value=do]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert page.run("location.pathname") == "/topics/made.here/messages"
    assert "Topic made.here was created." in page.run("document.body.innerText")
    go(page, url, "/topics/made.here/delete")
    page.run("document.getElementById('confirm').value = 'made'; window.before = true")
    page.run("document.querySelector('button[value=do]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert "Type made.here to confirm" in page.run("document.body.innerText")
    page.run("document.getElementById('confirm').value = 'made.here'; window.before = true")
    page.run("document.querySelector('button[value=do]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert page.run("location.pathname") == "/topics"
    go(page, url, "/audit")
    assert page.run("document.querySelectorAll('tbody .state.good').length") >= 2


def test_a_reset_can_be_undone(page: Page, url: str) -> None:
    before = page.run("fetch('/groups/billing/lag.json').then(one => one.json()).then(all => all.lag)")
    assert before > 0
    go(page, url, "/groups/billing/reset")
    page.run("document.getElementById('f-way').value = 'latest'; window.before = true")
    page.run("document.querySelector('button[value=preview]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert "never read by this group" in page.run("document.querySelector('.plan').innerText")
    page.run("window.before = true; document.querySelector('button[value=do]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    rows = "fetch('/groups/billing/lag.json').then(one => one.json()).then(all => all.rows"
    lag = f"{rows}.map(row => row.end - row.committed))"
    assert sum(page.run(lag)) == 0
    page.run("window.before = true; document.querySelector('.line.good form button').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    page.run("window.before = true; document.querySelector('button[value=do]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert sum(page.run(lag)) >= before


def test_a_connector_tells_its_error_and_hides_its_password(
    page: Page, url: str, connect: tuple[str, list[str]]
) -> None:
    go(page, url, "/connectors/0/orders-to-pg/status")
    shown = page.run("document.body.innerText")
    assert "no table" in shown
    assert "hunter2" not in page.run("document.documentElement.outerHTML")
    go(page, url, "/connectors/0/orders-to-pg/pause")
    page.run("window.before = true; document.querySelector('button[value=do]').click()")
    page.wait_until(f"window.before === undefined && {LOADED}")
    assert connect[1] == ["/connectors/orders-to-pg/pause"]
