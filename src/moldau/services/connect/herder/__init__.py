"""Decides what connectors and tasks there are, what of them runs here, and carries out what users ask for.

interface.py    what the REST interface asks of a herder, and how it is refused
facade.py       that, on the worker below
worker.py       the operations, and the loop that makes what runs what shall run
plan.py         what to stop and to start (pure)
loop.py         one thread: everything that changes something happens on it, in order
tasks.py        what a connector wants as tasks, made records; restarts (pure)
offsets.py      offsets of connectors: shown, set, forgotten (KIP-875)
fencing.py      older tasks of a source cannot write any more before its present ones start (KIP-618)
secrets.py      `${file:..}` and the like, filled in only for the runtime
signing.py      requests between workers (KIP-507); peer.py sends them
problems.py     why something is refused
cluster.py      what is asked of the Kafka cluster beside
"""
