"""`moldau doctor`: what keeps a client from its cluster, found from the client's side."""
