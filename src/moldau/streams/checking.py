"""The options of all topics and flows, checked before Java starts.

Java takes seconds to start, and minutes on a busy machine: too long to wait for a mistake in an option.
Here the data source's own tables are asked, on the driver; Spark would ask them much later, and hand the
answer on inside traces of Java and Python.

Not here: what only a session can judge (the flows' own functions, schemas), or only a cluster (whether topics
are there).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.streams.errors import AppError
from moldau.streams.flow import Output

if TYPE_CHECKING:
    from moldau.streams.app import App


def check_options(app: App, say: Callable[[str], None]) -> None:
    """AppError for the first option that is wrong; `say` is told of those that have no effect."""
    from moldau.client.errors import OptionError
    from moldau.streams.places import source_options
    from moldau.streams.writing import written_options
    from pyspark_moldau.options import parse_options
    from pyspark_moldau.sink_options import parse_sink_options

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for topic in app.all_topics:
            try:
                parse_options(source_options(app, topic, headers=False))
            except OptionError as failure:
                raise AppError(f"topic {topic.name}: {failure}") from None
        for flow in app.flows.values():
            if isinstance(flow.output, Output):
                try:
                    parse_sink_options(written_options(app, flow, flow.output), streaming=True)
                except OptionError as failure:
                    raise AppError(f"flow {flow.name} writes {flow.output.topic}: {failure}") from None
    for each in warned:
        say(str(each.message))
