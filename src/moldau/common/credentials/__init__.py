"""What both ends of a secured connection need: key stores and TLS contexts, JAAS notation, a client's SASL.

Above `core` only, so that brokers (security/, peers/) and clients (client/, the Spark source) share it.
"""
