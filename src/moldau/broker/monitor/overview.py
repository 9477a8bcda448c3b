"""The broker's page for people: the verdict, its causes with remedies, what is known, and links.

Nothing is cut off: values wrap, rows of equal shape (the cluster's brokers) are a table, and on a narrow
screen a row's cells stand below one another. Light and dark follow the reader's system.
"""

import html
from collections.abc import Mapping, Sequence

from moldau.broker.monitor.health import Verdict

STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin:0 0 1.5em}
td,th{padding:.2em 1em .2em 0;vertical-align:top;text-align:left;border-bottom:1px solid #8884}
th{font-weight:600;white-space:nowrap}
.cause{border-left:4px solid #d1495b;margin:1em 0;padding:.1em 1em;background:#8881}
.cause.warn{border-color:#e0a030}
.verdict{font-weight:700}
.verdict.ok{color:#2e8b57}.verdict.degraded{color:#b8860b}.verdict.failing{color:#d1495b}
@media(max-width:40em){td,th{display:block;border:0;padding:0}tr{display:block;border-bottom:1px solid #8884;
padding:.3em 0}th{white-space:normal}.rows tr:first-child{display:none}
.rows td::before{content:attr(data-name) ": ";font-weight:600}}
"""


def overview(verdict: Verdict, facts: Mapping[str, object], links: Mapping[str, str]) -> str:
    """The whole document. `links`: paths and what they show."""
    causes = "".join(
        f'<div class="cause {_text(cause.severity.name.lower())}"><p><b>{_text(cause.name)}</b>: '
        f"{_text(cause.message)}</p><p>{_text(cause.remedy)}</p></div>"
        for cause in verdict.causes
    )
    tables = {name: value for name, value in facts.items() if _is_rows(value)}
    plain = "".join(
        f"<tr><th>{_name(name)}</th><td>{_text(plain_text(value))}</td></tr>"
        for name, value in facts.items()
        if name not in tables
    )
    rows = "".join(f"<h2>{_name(name)}</h2>{_table(value)}" for name, value in tables.items())
    linked = "".join(
        f'<tr><td><a href="{path}">{path}</a></td><td>{_text(words)}</td></tr>'
        for path, words in links.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Moldau</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style>'
        f'<h1>Moldau</h1><p>This broker is <span class="verdict {verdict.word}">{verdict.word}</span>.</p>'
        f"{causes}<table>{plain}</table>{rows}<h2>Pages</h2><table>{linked}</table></html>\n"
    )


def plain_text(value: object) -> str:
    """A field as text; list members are separated by semicolons."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{str(name).replace('_', ' ')} {f'({words})' if isinstance(each, Mapping) else words}"
            for name, each in value.items()
            if each != "" and (words := plain_text(each))
        )
    if isinstance(value, list | tuple):
        return "; ".join(plain_text(each) for each in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _table(value: object) -> str:
    rows: Sequence[Mapping[str, object]] = value  # type: ignore[assignment]
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{_name(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(f'<td data-name="{_name(name)}">{_text(plain_text(row.get(name)))}</td>' for name in names)
        + "</tr>"
        for row in rows
    )
    return f'<table class="rows"><tr>{head}</tr>{body}</table>'


def _name(name: object) -> str:
    return _text(str(name).replace("_", " "))


def _text(text: str) -> str:
    return html.escape(text)
