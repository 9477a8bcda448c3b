"""The group and the transaction coordinator: requests are decided, their records replayed and appended, and
answered when these are committed.

    coordinator.py   what both are to the broker              runtime.py    which shards are here
    election.py      follows the leaders of the topic         entry.py      a decision on its way into the log
    machine.py       what a shard needs of state and log      shard.py      deciding, appending, answering
    result.py        what a decision is                       loading.py    reading a shard's log back
    group/           state machine of groups and offsets      transaction/  state machine of transactions
"""
