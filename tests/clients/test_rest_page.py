"""The page to try the operations (/ui), in a real browser: what it shows, sends, streams and refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import headless_browser
import httpx
import pytest
from headless_browser import Page
from rest_v3_client import V3Client, rest_proxy

from moldau.services.rest.openapi.document import document
from moldau.testing import Broker

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(headless_browser.missing() is not None, reason=str(headless_browser.missing())),
]

# By names of their own: the page's functions are global too.
HELPERS = """
window.forms = {
  find: (method, path) => [...document.querySelectorAll("details")].find((each) =>
    each.querySelector(".method").textContent === method && each.querySelector(".path").textContent === path),
  open: (method, path) => { forms.find(method, path).open = true; return true; },
  part: (method, path, selector) => forms.find(method, path).querySelector(selector),
  fill: (method, path, name, value) => {
    const input = forms.part(method, path, `[name="${name}"]`);
    input.value = value;
    input.dispatchEvent(new Event("input"));
  },
};
"""
TOPICS = "/v3/clusters/{cluster_id}/topics"
RECORDS = f"{TOPICS}/{{topic_name}}/records"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker() as broker, rest_proxy(broker.bootstrap_servers) as address:
        yield address


@pytest.fixture(scope="module")
def browser_page(url: str) -> Iterator[Page]:
    with headless_browser.opened(f"{url}/ui") as page:
        page.wait_until("document.querySelectorAll('details').length > 0")
        page.run(HELPERS)
        yield page


@pytest.fixture
def page(browser_page: Page) -> Iterator[Page]:
    yield browser_page
    assert browser_page.complaints == []


def words(*each: str) -> str:
    return ", ".join(json.dumps(word) for word in each)


def send(page: Page, method: str, path: str, *, body: str | None = None, **fields: str) -> str:
    """Fill the form of an operation and press Send; the status line."""
    at = words(method, path)
    assert page.run(f"forms.open({at})")
    page.wait_until(f"!!forms.part({at}, 'button.go')")
    if "{cluster_id}" in path:
        page.wait_until(f"""forms.part({at}, '[name="cluster_id"]').value""")
    for name, value in fields.items():
        page.run(f"forms.fill({words(method, path, name, value)})")
    if body is not None:
        page.run(f"forms.part({at}, 'textarea').value = {json.dumps(body)}")
    page.run(f"forms.part({at}, 'button.go').click()")
    page.wait_until(f"/^[0-9]/.test(forms.part({at}, '.status').textContent)")
    return str(page.run(f"forms.part({at}, '.status').textContent"))


def shown(page: Page, method: str, path: str) -> str:
    """What the response's field shows, once it has come whole."""
    at = words(method, path)
    page.wait_until(f"!forms.part({at}, 'button.go').disabled")
    return str(page.run(f"forms.part({at}, 'pre').textContent"))


def choose(page: Page, method: str, path: str, media_type: str) -> None:
    """Ask for another kind of response."""
    at = words(method, path)
    assert page.run(f"forms.open({at})")
    page.wait_until(f"!!forms.part({at}, 'select')")
    page.run(f"forms.part({at}, 'select').value = {json.dumps(media_type)}")


def test_all_operations_are_there(page: Page) -> None:
    operations = sum(len(methods) for methods in document()["paths"].values())
    assert page.run("document.querySelectorAll('details').length") == operations
    assert page.run("document.querySelectorAll('section > h2').length") > 5
    assert page.run("getComputedStyle(document.querySelector('header')).display") == "flex"  # its own style


def test_the_search_leaves_what_fits(page: Page) -> None:
    count = "[...document.querySelectorAll('details')].filter((each) => !each.hidden).length"
    search = "document.getElementById('search')"
    everything = page.run(count)
    page.run(f"{search}.value = 'lag'; {search}.dispatchEvent(new Event('input'))")
    assert 0 < page.run(count) < everything
    page.run(f"{search}.value = ''; {search}.dispatchEvent(new Event('input'))")
    assert page.run(count) == everything


def test_every_operation_opens(page: Page) -> None:
    page.run("for (const each of document.querySelectorAll('details')) each.open = true")
    page.wait_until(
        "[...document.querySelectorAll('details')].every((each) => each.querySelector('button.go'))"
    )
    bodies = "[...document.querySelectorAll('textarea')].map((each) => each.value)"
    for body in page.run(bodies):
        json.loads(body)
    page.run("for (const each of document.querySelectorAll('details')) each.open = false")


def test_a_topic_is_made_and_a_record_written_and_read(page: Page, url: str) -> None:
    body = '{"topic_name": "on-a-page", "partitions_count": 2}'
    assert send(page, "POST", TOPICS, body=body).startswith("201")  # the cluster's id is filled in
    assert json.loads(shown(page, "POST", TOPICS))["topic_name"] == "on-a-page"
    V3Client(url).await_topic("on-a-page")

    record = '{"key": {"type": "STRING", "data": "Děčín"}, "value": {"type": "JSON", "data": {"level": 1}}}'
    assert send(page, "POST", RECORDS, body=record, topic_name="on-a-page").startswith("200")
    assert json.loads(shown(page, "POST", RECORDS))["error_code"] == 200

    choose(page, "GET", RECORDS, "application/json")
    # The topic's name is carried over from the operation before.
    assert send(page, "GET", RECORDS, key_format="string", value_format="json").startswith("200")
    (found,) = json.loads(shown(page, "GET", RECORDS))["data"]
    assert (found["key"]["data"], found["value"]["data"]) == ("Děčín", {"level": 1})

    assert send(page, "DELETE", f"{TOPICS}/{{topic_name}}").startswith("204")


def test_a_live_tail_runs_until_it_is_stopped(page: Page, url: str) -> None:
    client = V3Client(url)
    client.create("tailed-on-a-page")
    choose(page, "GET", RECORDS, "text/event-stream")
    assert send(page, "GET", RECORDS, topic_name="tailed-on-a-page", value_format="string").startswith("200")
    at = words("GET", RECORDS)
    for number in range(3):
        value = f"event {number}"
        record = {"value": {"type": "STRING", "data": value}}
        assert client.ask("POST", "/topics/tailed-on-a-page/records", json=record).status_code == 200
        page.wait_until(f"forms.part({at}, 'pre').textContent.includes({json.dumps(value)})")
    assert page.run(f"forms.part({at}, 'button.go').disabled")
    page.run(f"forms.part({at}, '.buttons button:not(.go)').click()")
    page.wait_until(f"!forms.part({at}, 'button.go').disabled")
    assert readers(url) == 0


def readers(url: str) -> float:
    """How many reads the proxy does; it may take a moment to notice that a client has gone."""
    ends = time.monotonic() + headless_browser.WAIT_SECONDS
    while True:
        lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
        count = float(next(line.split()[1] for line in lines if line.startswith("moldau_rest_readers ")))
        if not count or time.monotonic() > ends:
            return count
        time.sleep(0.05)


def test_an_error_is_shown(page: Page) -> None:
    status = send(page, "GET", f"{TOPICS}/{{topic_name}}", topic_name="not-there")
    assert status.startswith("404")
    assert json.loads(shown(page, "GET", f"{TOPICS}/{{topic_name}}"))["error_code"] == 40403


def test_version_2_is_tried_with_its_media_types(page: Page) -> None:
    at = words("POST", "/topics/{topic}")
    assert page.run(f"forms.open({at})")
    page.wait_until(f"!!forms.part({at}, 'select')")
    page.run(f"forms.part({at}, 'select').value = 'application/vnd.kafka.json.v2+json'")
    body = '{"records": [{"value": {"level": 2}}]}'
    assert send(page, "POST", "/topics/{topic}", body=body, topic="from-version-2").startswith("200")
    assert json.loads(shown(page, "POST", "/topics/{topic}"))["offsets"][0]["offset"] == 0
