"""A kit to test a source or a sink without a worker: run it, stop it anywhere, and see that nothing is lost
or twice.

    run = SourceRun(Weather, {"url": server.url})
    run.read(3); run.values()                         what three reads brought
    check_source(Weather, {"url": server.url})        the same records, wherever it is stopped and started
    again

    run = SinkRun(Printer, {"file": "out"})
    run.send("orders", [{"id": 1}, {"id": 2}])
    check_sink(Printer, {"file": "out"}, records, read_back)   each record once, wherever it dies

sources.py  sinks.py    Connectors of one's own: docs/connect-own.md
"""

from moldau.connect.testing.sinks import Dies, SinkRun, check_sink
from moldau.connect.testing.sources import SourceRun, check_source

__all__ = ["Dies", "SinkRun", "SourceRun", "check_sink", "check_source"]
