"""JSON web tokens of clients (SASL/OAUTHBEARER): the issuer's keys, and the checks of a token.

key_set.py     a JWKS document, and which of its keys may have signed a token
key_source.py  fetches that document again: after a while, and for a key that is not in it
checks.py      signature, times, issuer, audience, name
unsecured.py   tokens without a signature, for tests
"""
