"""kill -9 in a loop: what a broker promised must be there, whole, once and in order, whenever it dies.

A round has a seed. From it come who writes what, how each transaction ends, and when somebody is killed: the
broker while it works, the broker while it starts, its cleaning process, a client. Moments are counted in what
the clients have done (and, during a start, in fractions of a normal start), so that a seed means the same on
a slow machine; what the threads of three processes do in between stays chance, which is the point.

    load.py        one client process that produces, with or without transactions, and keeps a ledger
    worker.py      one client process of a consume-transform-produce loop
    ledger.py      what each client was told, in a file that survives its own kill -9
    kills.py       the schedule and who carries it out; victim.py is the broker under test
    reading.py     what is in the topics: by a real client, and once by hand from the bytes of Fetch
    aftermath.py   nothing may hang in the end; what the broker says about itself
    judge_*.py     ledger and topic compared, as plain functions that return complaints
    round_*.py     one scenario each
    pipeline.py    a Spark driver with two queries, as a program and (pipeline_app.py) as an app;
                   spark_driver.py starts and kills it, spark_checkpoints.py looks at its notes,
                   feeder.py writes its input, ../pipelines/cluster.py is the cluster it may run on
    round_cluster.py  three brokers and a ZooKeeper, one fault after the other; the clients' histories are
                   judged by tests/histories
    cluster_*.py   its clients (each a process; in Java ../clients/java), faults, cables between brokers,
                   reassignments, witness, more judges
    network*.py    machines that are network namespaces, and the switch between them
    __main__.py    make torture

Not here: a power cut (tests/property/test_log_*, tests/sim), where the disk forgets what was not synced.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The benchmarks' broker processes and the client tests' raw client serve here too.
for _folder in (ROOT, HERE.parent / "clients", HERE.parent):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
