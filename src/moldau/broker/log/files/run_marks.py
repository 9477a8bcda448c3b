"""`.moldau_running` in each log directory tells the next start whether the last stop took anything.

A process that dies (kill -9, out of memory, a bug) loses nothing that it had written: the kernel has it.
What a machine loses when it dies is what had not been forced to its disks. So while a broker of a cluster
runs, each of its log directories holds

    {"version":0,"brokerEpochs":[17,23],"bootId":"5f3c...","forced":false}

    brokerEpochs   broker epochs of this process, and that before a stop that took nothing
    bootId         of the machine's kernel: another one after every start of the machine
    forced         whether nothing counted before it was forced to the disk (moldau.durability=group)

After an unclean stop the logs are complete since these epochs if the boot id is still the same, or `forced`.
Without a boot id (other systems than Linux) only `forced` counts. A volume that moved to another machine
comes with another boot id, and so counts as after a loss of power.

Not told from the death of a process, without a start of the machine in between: a volume that was torn off
its machine (forced detachment) and attached again; a file system that failed and was mounted again. Nor, on
the same machine or with `forced`: a directory put back from a copy or snapshot that was made while this
process ran. An operator has to remove the mark then (docs/cluster.md).

Acknowledged is only what is written; see docs/ARCHITECTURE.md, "The story of a Produce request". An I/O error
that takes a directory offline removes the marks: the page cache cannot be trusted then.

Not here: what follows for in-sync sets (controller/membership.py); the mark of a clean stop (directory.py).
"""

import json
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.broker.log.files.checkpoints import read_small_file
from moldau.common.core.files import Files, write_atomically

NAME = ".moldau_running"
_EPOCHS_MAX = 16

logger = logging.getLogger("moldau.log.run_marks")


class RunMarks(NamedTuple):
    """Reads and writes the marks of one process. `boot_id` None: there is none on this machine."""

    files: Files
    boot_id: str | None
    forced: bool

    def complete_epochs(self, directory: str, *, records_cut: bool = False) -> tuple[int, ...]:
        """After an unclean stop: the broker epochs since which this directory has lost nothing. OSError.

        `records_cut`: a log here was cut before whole batches. A loss of power may leave that behind what was
        forced; the death of a process does not: the disk or its file system has damaged something.
        """
        data = read_small_file(self.files, f"{directory}/{NAME}")
        if data is None:
            return ()
        try:
            mark = json.loads(data)
            if mark["version"] != 0:
                return ()
            epochs = tuple(int(each) for each in mark["brokerEpochs"])
            boot_id, forced = mark["bootId"], mark["forced"] is True
        except (ValueError, KeyError, TypeError):
            logger.warning("%s/%s cannot be read: the last stop counts as a loss of power", directory, NAME)
            return ()
        if self.boot_id is not None and boot_id == self.boot_id:
            return () if records_cut else epochs
        return epochs if forced else ()

    def write(self, directory: str, broker_epochs: Sequence[int]) -> None:
        """From now on these logs are complete since these epochs; none: their ends are lost. OSError."""
        mark = {
            "version": 0,
            "brokerEpochs": list(broker_epochs[-_EPOCHS_MAX:]),
            "bootId": self.boot_id,
            "forced": self.forced,
        }
        content = json.dumps(mark, separators=(",", ":")).encode()
        # Without `forced` it says nothing after a loss of power: an older mark found then has an older
        # boot id, or older broker epochs than the metadata.
        write_atomically(self.files, f"{directory}/{NAME}", content, sync=self.forced)

    def remove(self, directories: Iterable[str]) -> None:
        """The next stop counts as a loss of power, where a disk still takes this."""
        for directory in directories:
            try:
                self.files.remove(f"{directory}/{NAME}")
            except OSError as error:
                logger.debug("%s/%s could not be removed: %s", directory, NAME, error)
