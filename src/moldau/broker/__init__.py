"""The broker: from the socket down to the files, and its parts in the cluster."""
