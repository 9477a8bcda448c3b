"""Checks the options of all topics and flows before Java starts.

Java takes seconds to start, minutes on a busy machine: too long for an error in an option. Here the data
source's option tables check them on the driver; Spark would check them much later, inside traces of Java and
Python. So are the topics' schemas found in the registry, except those that flows of the app will register.

Not here: what needs a session (the flows' functions, schemas of JSON) or a cluster (whether topics exist).
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
    """StreamsError for the first wrong option or missing schema; `say` gets those without an effect."""
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
    made = {flow.output.topic for flow in app.flows.values() if isinstance(flow.output, Output)}
    app.place.begin()
    for topic in app.all_topics:
        if topic.name not in made:
            app.place.find_schema(topic)
