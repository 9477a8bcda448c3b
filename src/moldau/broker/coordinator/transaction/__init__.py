"""Transactions of producers with a transactional id (KIP-98): the coordinator's state machine."""
