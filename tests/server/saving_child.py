"""Kills processes while they save a server; prints how often that was in the middle of a file."""

import os
import random
import signal
import sys
import time
from pathlib import Path

from fedmerit import Server
from tests.server.federation import model, updates

KILLS = 30


def save_for_ever(server, path):
    try:
        while True:
            server.save(path)
    finally:
        os._exit(1)


def main(path):
    server = Server(model(), seed=5, reward="positive:budget=1000")
    server.settle(updates=updates(1))
    server.save(path)
    source, in_the_middle = random.Random(1), 0
    for _ in range(KILLS):
        first = path.stat().st_ino
        child = os.fork()
        if child == 0:
            save_for_ever(server, path)
        while path.stat().st_ino == first:  # the child is at work
            pass
        until = time.perf_counter() + source.uniform(0, 0.01)
        while time.perf_counter() < until:
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        loaded = Server.load(path)
        assert loaded.round == 1
        assert loaded.contributions() == server.contributions()
        for partial in path.parent.glob("*.part*"):
            in_the_middle += 1
            partial.unlink()
    print(in_the_middle)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
