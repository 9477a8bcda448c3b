"""Client quotas: bytes in and out, time of the event loop, changes of metadata, connections by address.

    entities.py       users, client ids, addresses and their defaults; which of eight levels decides
    filters.py        which entities DescribeClientQuotas matches
    rate.py           the mean over some seconds, and how long a client must wait
    token_bucket.py   the same for changes of metadata, which come in bursts
    meters.py         what each client has used; clients that have gone are forgotten
    limits.py         the limits of one client, and the table that they come from
    mutations.py      one request's changes of metadata
    connection_rates.py   new connections of one address

Not here: changes of quotas (controller/quotas.py), where they are charged (server/dispatch.py,
produce/produce_request.py, fetch/fetch.py), quotas of replication (replication/replication_quota.py).
"""
