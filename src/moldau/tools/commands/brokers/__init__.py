"""`moldau brokers`: the brokers of a cluster, and what each holds.

overview.py    one row a broker: leaders, replicas, bytes, state       command.py    the command line
placement.py   where a broker's replicas may go (pure)                 draining.py   moves them, with progress
"""
