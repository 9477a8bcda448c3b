"""What a process keeps between tasks and micro-batches: connections, producers, partition counts.

Spark forks its Python processes and uses each for one thing at a time. Keeping these saves a connection, a
producer id and a metadata request each time; nothing depends on it. After any error everything is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moldau.client.cluster import Cluster
from moldau.client.producer import IdempotentProducer
from pyspark_moldau.sink_options import SinkOptions
from pyspark_moldau.sink_rows import Topics

KEPT_MAX = 8


class Kept:
    """A connected cluster with its cached metadata."""

    def __init__(self, options: SinkOptions) -> None:
        self.cluster = Cluster(options.bootstrap_servers, options.client_options)
        self.topics = Topics(self.cluster)
        self.producer = IdempotentProducer(self.cluster)

    def close(self) -> None:
        """Close the connections."""
        self.cluster.close()


_kept: dict[object, Kept] = {}


@contextmanager
def writing(options: SinkOptions) -> Iterator[Kept]:
    """The cached objects for these options, in a `with` block."""
    key = (options.bootstrap_servers, tuple(sorted(options.client_options.items())))
    kept = _kept.pop(key, None) or Kept(options)
    try:
        yield kept
    except BaseException:
        kept.close()
        raise
    if (other := _kept.pop(key, None)) is not None:
        other.close()
    _kept[key] = kept  # the newest last
    while len(_kept) > KEPT_MAX:
        _kept.pop(next(iter(_kept))).close()
