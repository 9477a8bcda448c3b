"""A spool: records that wait on this machine's disk until something has taken them, in order, across crashes.

    with Spool.open("/var/spool/orders") as spool:
        spool.append_durably([b"one", b"two"])              # on the disk when it returns
        first, records = spool.read(spool.position)         # what nobody has acknowledged yet
        spool.acknowledge(first + len(records))
        spool.save_position()

    frames.py     bytes of a segment: header, frames of records, what is a torn tail and what is damage
    position.py   the small file with the spool's identity and the read position
    recovery.py   what is found at start: the torn tail is cut, damage is refused
    spool.py      append, group sync, read, acknowledge

Not here: what a record means, and who takes it (batched/, agent/).
"""

from moldau.kit.spool.errors import SpoolDamaged, SpoolError, SpoolFull, SpoolLocked
from moldau.kit.spool.spool import Spool

__all__ = ["Spool", "SpoolDamaged", "SpoolError", "SpoolFull", "SpoolLocked"]
