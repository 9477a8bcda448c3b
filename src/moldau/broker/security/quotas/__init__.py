"""Client quotas: bytes in and out, time of the event loop, changes of metadata, connections by address.

    filters.py        which entities DescribeClientQuotas matches
    rate.py           the mean over some seconds, and how long a client must wait
    token_bucket.py   the same for changes of metadata, which come in bursts
    meters.py         what each client has used; clients that have gone are forgotten
    limits.py         the limits of one client, and the table that they come from
    mutations.py      one request's changes of metadata
    connection_rates.py   new connections of one address

Not here: users, client ids, addresses, and which of eight levels decides (common/access/quota_entities.py),
changes of quotas (controller/quotas.py), where they are charged (server/dispatch.py,
produce/produce_request.py, fetch/one_fetch.py), quotas of replication (replication/replication_quota.py).
"""
