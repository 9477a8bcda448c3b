"""`moldau cluster`: a ZooKeeper ensemble and several brokers on this machine, each a process.

plan.py        what the cluster consists of: numbers, ports, settings; kept in cluster.json
processes.py   processes that outlive the command: found again by process id and moment of start
servers.py     one server of the cluster: its folder, its ports, its command line
starting.py    starts what is missing and waits for it         stopping.py   ends it in order
picture.py     what is there now: processes, health, partitions   command.py   the command line
"""
