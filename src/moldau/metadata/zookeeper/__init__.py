"""The metadata store of a cluster: several brokers on a ZooKeeper ensemble (interface: metadata/store.py).

    store.py           the store: session, events in order, the promises of the interface
    session.py         one ZooKeeper session: calls from the event loop, connection lost and back, its end
    append.py          the fenced append, and whether it was made when the connection was lost
    log_reading.py     head, entries and snapshot, as a newcomer reads them
    snapshots.py       writes snapshots, removes what they replace and what crashed writers left
    registrations.py   brokers that live     seat.py   the controller's seat
    foundation.py      a new ensemble's first nodes; a cluster that was a single broker moves in
    layout.py          the nodes' names      payload.py   what is in them     discovery.py   Kafka's nodes

Needs kazoo (`pip install 'moldau[cluster]'`), which a broker without `zookeeper.connect` never imports.
"""
