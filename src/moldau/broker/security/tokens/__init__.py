"""Delegation tokens (KIP-48, KIP-373): signing, finding by HMAC, and the credentials behind a login.

Decisions about tokens are the controller's (controller/delegation_tokens.py).
"""
