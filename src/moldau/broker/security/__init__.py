"""Who a client is and what it may do: `login/` (SASL), ACLs, the authorizer, the audit. A broker without such
settings imports nothing of it."""
