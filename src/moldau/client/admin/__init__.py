"""Administration of a Kafka cluster over our own client: one place that asks, for commands and services.

    routing.py      to any broker, one broker, the controller, a coordinator; and what is asked again
    problem.py      a broker's refusal
    acls.py ...     what is asked, a subject each

Every function takes a connected `Cluster`, blocks, and returns plain values. It raises KafkaProblem for what
a broker refuses, and what `Cluster.persist` raises for a cluster that does not answer. A service on an event
loop calls the functions in threads (docs/decisions/one-place-that-asks.md).
"""
