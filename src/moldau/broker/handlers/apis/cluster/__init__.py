"""The cluster, its brokers and their log directories."""
