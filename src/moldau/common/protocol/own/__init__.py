"""Messages of Moldau's own, which Kafka does not have: API keys from 21000 on.

Clients that do not know a key in ApiVersions pass over it. The messages are declared like Kafka's; they are
apart from those because no oracle knows them.
"""
