"""SQL statements as topics and flows.

    CREATE STREAM flights (carrier string, origin string, time_hour timestamp, dep_delay double)
        WITH (key = 'carrier', watermark = 'time_hour 1 hour');

    CREATE TABLE planes (tailnum string, seats int) WITH (key = 'tailnum');

    CREATE STREAM late WITH (topic = 'late-flights', key = 'carrier') AS
        SELECT * FROM flights WHERE dep_delay > 60;

    CREATE TABLE delay_by_carrier WITH (key = 'carrier') AS
        SELECT carrier, avg(dep_delay) AS delay FROM flights GROUP BY carrier;

With columns a statement declares a topic's content; with AS and a query it is a flow. A topic whose schema is
in a registry (value = 'avro') is declared without columns. STREAM means every record, TABLE the latest row of
each key, on either side. The query is Spark SQL, in which the app's topics are views under their names here
(those of Python's `app.topic` under the topic's name). Options are those of `App.topic` and `App.to`; `topic`
names the topic where it differs from the name.

Not here: parsing the query, which is Spark's business, and happens when the flow is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moldau.streams.errors import AppError
from moldau.streams.names import name_from_topic
from moldau.streams.topic import SCHEMA_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.streams.app import App
    from moldau.streams.flow import Flow, Query
    from moldau.streams.topic import Topic

TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;|[^-/'\"`;]+|.", re.S
)
HEAD = re.compile(
    r"""\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?P<kind>STREAM|TABLE)\s+(?P<name>`[^`]+`|[\w.-]+)\s*(?P<rest>.*)""",
    re.S | re.I,
)
OPTION = re.compile(r"\s*([\w.]+)\s*=\s*(?:'((?:[^']|'')*)'|(\w+))\s*(?:,|$)", re.S)
SCHEMA_OPTIONS = ("schema", "registry", "subject")
TOPIC_OPTIONS = (
    *(
        "topic",
        "key",
        "key_format",
        "value",
        "watermark",
        "starting",
        "bad_records",
        "dead_letters",
        "record",
    ),
    *SCHEMA_OPTIONS,
)
FLOW_OPTIONS = (
    *("topic", "key", "key_format", "key_schema", "value", "name", "mode", "trigger", "partitions"),
    "record_name",
    *SCHEMA_OPTIONS,
)
SHAPE = "CREATE STREAM|TABLE name [(columns)] [WITH (option = 'value', ...)] [AS SELECT ...]"


def add_statements(app: App, text: str, where: str) -> list[Flow]:
    """Add what the statements describe to the app; gives the flows. AppError names the statement."""
    flows: list[Flow] = []
    views: dict[str, View] = {}
    for number, statement in enumerate(statements(text), start=1):
        head = HEAD.fullmatch(statement)
        if head is None:
            raise AppError(f"{where}, statement {number}: {_short(statement)!r} is not {SHAPE}")
        kind, name = head["kind"].upper(), head["name"].strip("`")
        try:
            columns, options, query = _parts(head["rest"])
            if query is None:
                views[name] = _add_topic(app, kind, name, columns, options)
            elif columns is not None:
                raise AppError("the query says which columns there are; leave the list out")
            else:
                flows.append(_add_flow(app, kind, name, options, query, views))
        except AppError as failure:
            raise AppError(f"{where}, {kind.lower()} {name}: {failure}") from None
    return flows


def statements(text: str) -> Iterator[str]:
    """The statements of a text, comments left out."""
    gathered: list[str] = []
    for token in TOKEN.findall(text):
        if token.startswith("--") or (token.startswith("/*") and token.endswith("*/")):
            gathered.append(" ")
        elif token == ";":
            if "".join(gathered).strip():
                yield "".join(gathered).strip()
            gathered = []
        else:
            gathered.append(token)
    if "".join(gathered).strip():
        yield "".join(gathered).strip()


class View:
    """A topic under a name that queries use."""

    def __init__(self, topic: Topic, is_table: bool) -> None:
        self.topic = topic
        self.is_table = is_table


def _parts(rest: str) -> tuple[str | None, dict[str, str], str | None]:
    """(columns) WITH (options) AS query, each of which may be absent."""
    columns, rest = _parenthesis(rest)
    options: dict[str, str] = {}
    with_ = re.match(r"WITH\b\s*", rest, re.I)
    if with_:
        inside, rest = _parenthesis(rest[with_.end() :])
        if inside is None:
            raise AppError("WITH is followed by (option = 'value', ...)")
        options = _options(inside)
    as_ = re.match(r"AS\b\s*", rest, re.I)
    if as_:
        return columns, options, rest[as_.end() :]
    if rest:
        raise AppError(f"{_short(rest)!r} was not expected: the form is {SHAPE}")
    return columns, options, None


def _parenthesis(text: str) -> tuple[str | None, str]:
    """What stands in the parentheses that the text begins with, and what follows them."""
    if not text.startswith("("):
        return None, text
    depth = 0
    for found in re.finditer(r"'(?:[^']|'')*'|`[^`]*`|[()]", text):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return text[1 : found.start()].strip(), text[found.end() :].lstrip()
    raise AppError(f"a closing parenthesis is missing after {_short(text)!r}")


def _options(text: str) -> dict[str, str]:
    options, position = {}, 0
    while position < len(text):
        found = OPTION.match(text, position)
        if found is None:
            raise AppError(f"{_short(text[position:])!r} is not of the form option = 'value'")
        options[found[1].lower()] = found[3] if found[2] is None else found[2].replace("''", "'")
        position = found.end()
    return options


def _add_topic(app: App, kind: str, name: str, columns: str | None, options: Mapping[str, str]) -> View:
    own = {option: value for option, value in options.items() if option in TOPIC_OPTIONS}
    more = {option: value for option, value in options.items() if option not in TOPIC_OPTIONS}
    topic_name = own.pop("topic", name)
    given: dict[str, Any] = dict(own)
    given["key"] = _names(own.get("key"))
    given["record"] = own.get("record", "false").lower() == "true"
    if "watermark" in own:
        column, _, delay = own["watermark"].strip().partition(" ")
        given["watermark"] = (column, delay.strip())
    if given.get("value", "json") == "json" and columns is None:
        raise AppError("it needs its columns in parentheses, or AS and a query")
    if given.get("value") in SCHEMA_FORMATS:
        if columns is not None:
            raise AppError("the registry's schema says which columns there are; leave the list out")
    elif "schema" in own:
        raise AppError("schema is for topics with a schema of the registry; columns stand in parentheses")
    else:
        given["schema"] = columns
    return View(app.topic(topic_name, options=more, **given), kind == "TABLE")


def _add_flow(
    app: App, kind: str, name: str, options: Mapping[str, str], query: str, views: Mapping[str, View]
) -> Flow:
    unknown = sorted(set(options) - set(FLOW_OPTIONS))
    if unknown:
        raise AppError(f"there is no option {unknown[0]}; there are {', '.join(FLOW_OPTIONS)}")
    given: dict[str, Any] = {option: value for option, value in options.items() if option != "topic"}
    given["key"] = _names(options.get("key"))
    given.setdefault("name", name_from_topic(name))
    if "partitions" in given:
        if not given["partitions"].isdigit():
            raise AppError(f"partitions = {given['partitions']!r} is no number")
        given["partitions"] = int(given["partitions"])
    target = options.get("topic", name)
    add = app.table(target, **given) if kind == "TABLE" else app.to(target, **given)
    return add(_query(app, query, dict(views)))


def _query(app: App, text: str, views: dict[str, View]) -> Query:
    def rows() -> DataFrame:
        from moldau.streams.places import active_session

        known = {name: View(topic, False) for name, topic in app.topics.items()} | views
        session = active_session()
        relations = _relations(session, text)
        for name, view in known.items():
            if name.lower() in relations:
                rows = view.topic.table() if view.is_table else view.topic.stream()
                rows.createOrReplaceTempView(f"`{name}`")
        return session.sql(text)

    return rows


def _relations(session: SparkSession, query: str) -> set[str]:
    """What the query reads by name, in small letters, as Spark's own parser has it."""
    found = set()
    waiting = [session._jsparkSession.sessionState().sqlParser().parsePlan(query)]
    while waiting:
        plan = waiting.pop()
        if plan.nodeName() == "UnresolvedRelation":
            found.add(plan.multipartIdentifier().mkString(".").lower())
        # Subqueries are inner children of the node whose expressions have them, and so is what WITH defines.
        for below in (plan.children(), plan.innerChildren()):
            waiting += [below.apply(index) for index in range(below.size())]
    return found


def _names(text: str | None) -> list[str] | str | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    return names[0] if len(names) == 1 else names


def _short(text: str) -> str:
    return " ".join(text.split())[:60]
