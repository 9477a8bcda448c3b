"""A private certificate authority, for a test bench or a cluster of one's own.

authority.py   the authority, and certificates for brokers and users
signing.py     the same in terms of `cryptography`, which this needs
"""
