"""SASL logins as the broker sees them.

    steps.py      what a mechanism is: bytes in, a `Step` out
    exchange.py   the frames of a login: which request may come when, and what is answered
    plain.py, scram.py ...   the mechanisms
    logins.py     which mechanisms a listener offers, from its settings

Nothing here knows a connection: server/login_gate.py feeds frames in and sends the answers. Nothing here
hashes a password: SCRAM's server only compares keys.
"""
