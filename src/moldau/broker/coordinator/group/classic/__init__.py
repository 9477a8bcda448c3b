"""Classic groups, the protocol before KIP-848: the members' leader computes the assignment."""
