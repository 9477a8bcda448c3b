"""`moldau configs`: settings of topics, groups, brokers, and the cluster's defaults."""
