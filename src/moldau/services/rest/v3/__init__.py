"""Version 3 of the REST proxy: resources of clusters under /v3/clusters, and records.

    operations.py   the table of operations, which routes and the OpenAPI document are made from
    call.py         one request: path, query, body, the cluster
    resources.py    what all resources look like: kind, metadata, links
    errors.py       Kafka's errors as the proxy's

Every other file has the operations of one kind of resource.
"""
