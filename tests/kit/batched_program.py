"""A program with `@batched` that tests kill: BOOTSTRAP TOPIC SPOOL HOW. It says the number of each call."""

import os
import sys

from moldau.kit.batched import batched, exit_on_sigterm


def main() -> None:
    bootstrap, topic, spool, how = sys.argv[1:]

    @batched(
        topic, size=50, seconds=0.05, bootstrap_servers=bootstrap, spool=spool or None, queue_max=100_000
    )
    def number(value: int) -> str:
        return str(value)

    if how == "exit":  # returns with everything still in the queue
        for value in range(500):
            number(value)
        return
    if how == "fork":
        number(0)
        child = os.fork()
        if not child:
            number(1)
            number.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        number(2)
        return
    exit_on_sigterm()
    begin = int(how)
    for value in range(begin, 1_000_000):
        number(value)
        print(value, flush=True)


main()
