"""Transactions by their global names: which were read, as an offset has them.

MySQL     3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5,…      sets of numbers by source
MariaDB   0-1-5,1-1-3                                     domain-server-number, the last of each domain
"""

from __future__ import annotations


class MariadbGtids:
    """The last transaction of each domain."""

    def __init__(self, text: str) -> None:
        self._last = {each.split("-")[0]: each for each in filter(None, text.replace(" ", "").split(","))}

    def add(self, gtid: str) -> None:
        """It was read to its end."""
        self._last[gtid.split("-", maxsplit=1)[0]] = gtid

    def __str__(self) -> str:
        return ",".join(self._last[each] for each in sorted(self._last, key=int))


class MysqlGtids:
    """A set of transactions."""

    def __init__(self, text: str) -> None:
        from pymysqlreplication.gtid import GtidSet

        self._set = GtidSet(text.replace("\n", "").replace(" ", ""))

    def add(self, gtid: str) -> None:
        """It was read to its end."""
        from pymysqlreplication.gtid import Gtid

        if Gtid(gtid) not in self._set:
            self._set += Gtid(gtid)

    def __str__(self) -> str:
        return str(self._set) if self._set.gtids else ""
