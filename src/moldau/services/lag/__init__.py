"""Consumer lag with a verdict: Burrow's rules and HTTP interface, for any Kafka cluster.

    __consumer_offsets ──> reading/ ──> store (windows of commits) ──> verdicts ──> routes/, metrics
    end offsets        ──>                                                     ──> notify/

A verdict needs no threshold: it judges the last commits of a partition against its lag (verdicts.py).
"""
