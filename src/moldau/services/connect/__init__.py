"""Kafka Connect's job: a worker that runs connectors, alone or in a group, told what to do over REST.

    stores/     what a cluster of workers knows: the topics connect-configs, connect-offsets, connect-status
    group/      which worker runs what: Kafka's group protocol of type "connect"
    herder/     decides: connectors, their target states, tasks, restarts; forwards to the leader
    routes/     the REST interface
    runtime/    runs a task: reads, converts, transforms, writes, commits; engines: local threads, Spark

The connectors themselves, and all that is about records, are in `moldau.connect`.
"""
