"""The demo's plot, drawn from the records of the output topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
COLOURS = {"EWR": "#1b6ca8", "JFK": "#d1495b", "LGA": "#5b8c3a"}
AIRLINES = {
    "9E": "Endeavor",
    "AA": "American",
    "AS": "Alaska",
    "B6": "JetBlue",
    "DL": "Delta",
    "EV": "ExpressJet",
    "F9": "Frontier",
    "FL": "AirTran",
    "HA": "Hawaiian",
    "MQ": "Envoy",
    "OO": "SkyWest",
    "UA": "United",
    "US": "US Airways",
    "VX": "Virgin America",
    "WN": "Southwest",
    "YV": "Mesa",
}
"""What passengers call the carriers that flew from New York in 2013."""
WEEK_DAYS = 7
NAMES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}


def draw(hours: Sequence[Row], carriers: Sequence[Row], path: Path) -> None:
    """Draw delay by day, by hour of the day, by the hour's weather and by airline."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, ((days, clock), (rain, airlines)) = pyplot.subplots(2, 2, figsize=(12, 7), layout="constrained")
    figure.suptitle("How long departures from New York were delayed, 2013", fontsize=13, fontweight="bold")
    departed = [row for row in hours if row["delay"] is not None]
    for origin in sorted({row["origin"] for row in departed}):
        own = [row for row in departed if row["origin"] == origin]
        style = {"color": COLOURS.get(origin), "label": NAMES.get(origin, origin)}
        days.plot(*week_means(own), **style)
        # Eastern standard time, all year round: the curve is about the order of the day, not the hour's name.
        clock.plot(*_means(own, lambda row: (moment(row).hour - 5) % 24), marker=".", **style)
    days.set(title="by day (mean of seven days)", ylabel="mean delay, minutes")
    days.legend(frameon=False)
    clock.set(title="by hour of the day (EST)", xlabel="scheduled departure", ylabel="mean delay, minutes")
    clock.set_xticks(range(3, 25, 3))
    _bars(rain, _by_weather(departed), "by the hour's weather")
    delays = [
        (AIRLINES.get(str(row["carrier"]), str(row["carrier"])), row["delay"])
        for row in carriers
        if row["delay"] is not None
    ]
    _bars(airlines, sorted(delays, key=lambda each: -each[1]), "by airline")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def moment(row: Row) -> datetime:
    """The hour of a row."""
    return datetime.fromisoformat(str(row["time_hour"]))


def week_means(rows: Sequence[Row]) -> tuple[list[date], list[float]]:
    """Mean delay of the seven days around each day, each hour weighted by its departures: single days differ
    so much that three lines of them are no curves. The first and last three days have no whole week.
    """
    sums: dict[date, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        total = sums[moment(row).date()]
        total[0] += row["delay"] * row["departed"]
        total[1] += row["departed"]
    around = [timedelta(days=delta) for delta in range(-(WEEK_DAYS // 2), WEEK_DAYS // 2 + 1)]
    days, means = [], []
    for day in sorted(sums):
        week = [sums[day + each] for each in around if day + each in sums]
        if len(week) == WEEK_DAYS:
            days.append(day)
            means.append(sum(delay for delay, _ in week) / sum(count for _, count in week))
    return days, means


def _means(rows: Sequence[Row], group: Any) -> tuple[list[Any], list[float]]:
    """Mean delay by group, each hour weighted by its departures."""
    sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        total = sums[group(row)]
        total[0] += row["delay"] * row["departed"]
        total[1] += row["departed"]
    names = sorted(sums)
    return names, [sums[name][0] / sums[name][1] for name in names]


WEATHERS = ("clear", "wind > 20 mph", "rain or snow", "heavy rain or snow", "sight < 2 miles")


def _by_weather(rows: Sequence[Row]) -> list[tuple[str, float]]:
    known = [row for row in rows if row.get("visib") is not None and row.get("precip") is not None]
    names, means = _means(known, lambda row: WEATHERS.index(weather_of(row)))
    return [(WEATHERS[name], mean) for name, mean in zip(names, means, strict=True)]


def weather_of(row: Row) -> str:
    """An hour's weather as one word."""
    if row["visib"] < 2:
        return "sight < 2 miles"
    if row["precip"] > 0.1:
        return "heavy rain or snow"
    if row["precip"] > 0:
        return "rain or snow"
    return "wind > 20 mph" if (row.get("wind_speed") or 0) > 20 else "clear"


def _bars(axes: Any, bars: Sequence[tuple[str, float]], title: str) -> None:
    axes.barh([name for name, _ in bars], [value for _, value in bars], color="#1b6ca8")
    axes.invert_yaxis()
    axes.set(title=title, xlabel="mean delay, minutes")
