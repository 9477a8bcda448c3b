"""Settings as tables: a setting is one row that the code, the documentation and the tests all read.

rows.py        what a row is; parsing and checking one value
table.py       a class of rows becomes a frozen object with one typed attribute a setting
broker.py      BrokerSettings, put together from network.py, storage.py, cluster.py, groups.py, security.py,
               zookeeper.py and without_effect.tsv
topic.py       TopicSettings, each row with the broker settings that its default comes from
group.py       GroupSettings, the same for one consumer group
without_effect.py  reads without_effect.tsv: Kafka's settings that have no effect here
    sources.py     file, environment, overrides -> StaticSettings
    listeners.py   the listener lists, taken apart
    guards.py      checks that refuse what would protect and is not there
    prefixed.py    settings that hold for one listener
    document.py    docs/settings.md
"""
