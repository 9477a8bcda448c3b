"""Logins, ACLs, delegation tokens, SCRAM credentials."""
