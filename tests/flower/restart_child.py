"""Servers that are killed between two rounds and started again, each a process of its own.

Takes a list of jobs as JSON, runs them one after the other, each in a fork, and prints how each
ended. Nothing is computed before a fork.
"""

import json
import logging
import os
import random
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
from flwr.app import MetricRecord
from flwr.serverapp.strategy import FedAvg

from fedmerit.flower import FedMerit
from fedmerit.ledger import Ledger, RunRecorder
from fedmerit.server.opening import state_path
from fedmerit.server.state import read_state
from tests.flower.federation import Federation, initial, plain, start

ROUNDS = 4


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Server(FedAvg):
    """FedAvg whose draws depend on the round only, and which dies when told."""

    def __init__(self, done, kill, at):
        super().__init__()
        self.done, self.kill, self.at = done, kill, at

    def configure_train(self, server_round, arrays, config, grid):
        self.reach("configure", server_round)
        random.seed(server_round + self.done)
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round, replies):
        self.reach("aggregate", server_round)
        return super().aggregate_train(server_round, replies)

    def reach(self, place, server_round):
        if self.kill == place and server_round + self.done == self.at:
            die()


def run(folder, *, kill=None, at=0, counters=False, resume=True, rounds=ROUNDS, **settings):
    folder = Path(folder)
    ledger = folder / "run.ledger"
    state = state_path(ledger)
    done = read_state(state)[1]["round"] if resume and state.is_file() else 0
    inner = Server(done, kill, at)

    def evaluate(server_round, arrays):
        inner.reach("evaluate", server_round)
        return MetricRecord({"seen": float(arrays["a.bias"].numpy().sum())})

    if kill == "between":
        write = RunRecorder.__call__

        def write_or_die(self, record):
            if record.round == at:
                die()
            write(self, record)

        RunRecorder.__call__ = write_or_die
    more = {"a.num_batches_tracked": np.array(0, np.int64)} if counters else {}
    strategy = FedMerit(
        inner,
        seed=3,
        ledger=ledger,
        resume=resume,
        reward="positive:budget=1000",
        **settings,
    )
    result = start(
        strategy,
        Federation(riders_from=2, first_round=done + 1, memory=folder),
        rounds=rounds - done,
        arrays=initial(**more),
        evaluate_fn=evaluate,
    )
    np.savez(folder / "final.npz", **plain(result.arrays))
    (folder / "verdicts").write_text(repr(strategy.server.verdicts()))
    (folder / "totals").write_text(repr(strategy.server.contributions()))


def main(jobs):
    logging.disable(logging.CRITICAL)
    ends = []
    for job in jobs:
        recorded = job.pop("recorded", None)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(**job)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if recorded is not None:
            with Ledger.open(Path(job["folder"]) / "run.ledger", read_only=True) as ledger:
                assert len(list(ledger.rounds())) == recorded, job
    print(json.dumps(ends))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
