"""Share groups (KIP-932): their members, what they read and acknowledge, and their states between brokers."""
