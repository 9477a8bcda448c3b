"""Starting a ZooKeeper ensemble on this machine, for a laptop's cluster and for tests.

ZooKeeper is Java: the server runs as a child process, with a Java found on the machine (java.py) and the jars
of a ZooKeeper installation or of PySpark (installation.py).

    server.py      one server: start, stop, kill, ask
    ensemble.py    one or three of them that form an ensemble
    login.py       a login that servers ask for

No part of the broker: a broker only connects to an ensemble (metadata/zookeeper/).
"""

from moldau.ensemble.ensemble import Ensemble
from moldau.ensemble.installation import EnsembleError
from moldau.ensemble.login import Login
from moldau.ensemble.server import Ports, ZooKeeperServer, free_ports

__all__ = ["Ensemble", "EnsembleError", "Login", "Ports", "ZooKeeperServer", "free_ports"]
