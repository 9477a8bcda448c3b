"""Who may do what. Empty until SASL, TLS and ACLs arrive: every client is User:ANONYMOUS and may do all."""
