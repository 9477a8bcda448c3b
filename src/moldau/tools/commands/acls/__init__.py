"""`moldau acls`: who may do what to which topics, groups and the cluster."""
