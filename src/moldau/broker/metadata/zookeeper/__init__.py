"""The metadata store of a cluster: several brokers on a ZooKeeper ensemble (interface: metadata/store.py).

    store.py           the store: opening, sessions, registration, election
    following.py       watches, looks, and delivers events in order
    appending.py       appends, and what follows from their outcome
    session.py         one ZooKeeper session: calls from the event loop, connection lost and back, its end
    login.py           the login by SASL on each of its connections
    append.py          the fenced append, and whether it was made when the connection was lost
    append_turns.py    brokers that were overtaken go first
    log_reading.py     head, entries and snapshot, as a newcomer reads them
    snapshots.py       writes snapshots, removes what they replace and what crashed writers left
    registrations.py   brokers that live     seat.py   the controller's seat
    opening.py         opens the log; foundation.py makes a new ensemble's first nodes
    data_folder.py     whose cluster the data belongs to; a single broker's metadata moves in
    layout.py          the nodes' names      payload.py   what is in them     discovery.py   Kafka's nodes

Needs kazoo (`pip install 'moldau[cluster]'`), which a broker without `zookeeper.connect` never imports.
"""
