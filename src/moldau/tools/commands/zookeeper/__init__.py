"""`moldau zookeeper`: one ZooKeeper server in the foreground."""
