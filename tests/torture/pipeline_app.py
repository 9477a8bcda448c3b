"""The flows of pipeline.py as an app, for `moldau streams run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.streams import App
from torture import pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

app = App("torture", settings=pipeline.SETTINGS)
numbers = app.topic(pipeline.NUMBERS, schema=pipeline.SCHEMA)


@app.to(pipeline.SQUARES, key="n")
def squares() -> DataFrame:
    return pipeline.squares(numbers.stream())


@app.to(pipeline.WINDOWS, key="start")
def windows() -> DataFrame:
    return pipeline.windows(numbers.stream())
