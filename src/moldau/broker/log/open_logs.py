"""The logs that are open here, and in which log directory each of them lives.

A disk error reaches `report`: a directory that failed goes offline with all its logs, and `on_offline` is
called with them. (What a full disk does, the log and its directory decide: files/directory.py.)

Invariant: a log is here exactly as long as its folder has the partition's name. Not here: making and removing
logs (manager.py), finding them at the start (startup.py).
"""

from collections.abc import Callable, Iterator

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.files.log_directories import LogDirectories
from moldau.broker.log.log import Log

Key = tuple[str, int]
"""Topic and partition."""


class OpenLogs:
    """A broker's open logs, by topic and partition."""

    def __init__(self, directories: LogDirectories, descriptors: DescriptorLimit) -> None:
        self._directories = directories
        self.descriptors = descriptors
        """What the open files of all logs count against."""
        self.by_key: dict[Key, Log] = {}
        self.homes: dict[Key, LogDirectory] = {}
        self.being_cleaned: set[Log] = set()
        """Logs that are being compacted or moved: retention leaves them alone meanwhile."""
        self.on_roll: Callable[[Log], None] = lambda log: None
        """Called with each log whose segment is full."""
        self.on_removed: Callable[[Log], None] = lambda log: None
        """Called with each log that is removed, before its files are."""
        self.on_offline: list[Callable[[LogDirectory, list[Log]], None]] = []
        """Called once for each directory that goes offline, with its logs."""

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of this partition, if it is here."""
        return self.by_key.get((topic, partition))

    def __len__(self) -> int:
        return len(self.by_key)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self.by_key.values()))

    def directory_of(self, log: Log) -> LogDirectory:
        """The log directory that holds this log."""
        return self.homes[log.topic, log.partition]

    def within(self, directory: LogDirectory) -> list[Log]:
        """The logs of this directory."""
        return [log for key, log in self.by_key.items() if self.homes[key] is directory]

    def adopt(self, log: Log, directory: LogDirectory) -> None:
        """The log is open, and is the partition's from now on."""
        key = (log.topic, log.partition)
        log.files.share_descriptors(self.descriptors)
        log.on_error = self.storage_failed
        log.on_roll = self.on_roll
        self.by_key[key] = log
        self.homes[key] = directory
        directory.log_count += 1

    def replace(self, current: Log, future: Log, directory: LogDirectory) -> None:
        """`future`, in `directory`, is the partition's log from now on."""
        self.on_removed(current)
        self.directory_of(current).log_count -= 1
        self.adopt(future, directory)
        future.reconfigure(current.settings)

    def remove(self, log: Log) -> LogDirectory:
        """The log is no partition's any more, and is offline; the directory that it is in."""
        key = (log.topic, log.partition)
        del self.by_key[key]
        directory = self.homes.pop(key)
        directory.log_count -= 1
        log.writer.go_offline()
        self.on_removed(log)
        return directory

    def clear(self) -> None:
        """All are closed."""
        self.by_key.clear()
        self.homes.clear()

    # -- trouble -----------------------------------------------------------------------------------

    def storage_failed(self, log: Log, error: OSError) -> None:
        """A read, a write or a sync of this log has failed."""
        if self.by_key.get((log.topic, log.partition)) is log:
            self.report(self.directory_of(log), error)

    def report(self, directory: LogDirectory, error: OSError) -> None:
        """A disk error of this directory: it may be offline from now on."""
        if not directory.report(error):
            return
        self._directories.remove_marks()
        logs = self.within(directory)
        for log in logs:
            log.writer.go_offline()
        for heard in self.on_offline:
            heard(directory, logs)
