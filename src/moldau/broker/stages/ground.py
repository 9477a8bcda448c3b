"""What exists before an address is bound or a file is opened."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moldau.broker.handlers.parts.broker import ResponseRoom
from moldau.broker.host import Host
from moldau.broker.log.files.descriptors import segment_descriptors
from moldau.broker.log.manager import LogManager
from moldau.broker.log.upkeep.background import LoopBackground
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.view import MetadataView
from moldau.broker.stages.stops import Stops
from moldau.common.core.late_start import LateStart
from moldau.common.core.slow_lane import SlowLane
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.sources import StaticSettings


class HearsOfImages(Protocol):
    """A part that sends requests to other brokers."""

    def image_changed(self, image: Image) -> None:
        """The metadata changed."""

    def close(self) -> None:
        """End its connections."""


class SettingsInEffect:
    """The settings now: static ones with the dynamic ones over them."""

    __slots__ = ("now",)

    def __init__(self, now: BrokerSettings) -> None:
        self.now = now

    def __call__(self) -> BrokerSettings:
        return self.now


class Ground(NamedTuple):
    """The machine, the settings, and parts that have not begun."""

    static: StaticSettings
    settings: SettingsInEffect
    host: Host
    lane: SlowLane
    """Shared by all that works in slices; parts below the handlers get it handed in."""
    metadata: MetadataView
    """Empty until the metadata is open."""
    logs: LogManager
    """Without a log until they are read."""
    response_room: ResponseRoom
    stops: Stops
    show_parts: Callable[[], None]
    """Shows monitoring the parts that exist."""

    @property
    def node_id(self) -> int:
        """This broker's id."""
        return self.static.broker.node_id

    def image(self) -> Image:
        """The metadata now."""
        return self.metadata.image

    def begin_later(
        self, name: str, delay_ms: int, begin: Callable[[], None], modules: Sequence[str]
    ) -> None:
        """Start a part after a delay: its imports, `modules` and what they need, must not delay the first
        clients.
        """
        self.stops.add(f"timer of {name}", self.late_start(delay_ms, begin, modules).cancel)

    def late_start(self, delay_ms: float, begin: Callable[[], None], modules: Sequence[str]) -> LateStart:
        """As `begin_later`, for a part that ends itself."""
        host = self.host
        return LateStart(host.loop, host.workers, host.timers, delay_ms, begin, modules)


def make_logs(static: StaticSettings, host: Host) -> LogManager:
    """The log manager, which reads nothing yet."""
    return LogManager(
        static.broker,
        clock=host.clock,
        timers=host.timers,
        files=host.files,
        background=LoopBackground(host.loop, host.workers),
        pool=host.pool,
        source=host.random,
        descriptor_limit=segment_descriptors(host.open_files_max),
    )
