"""How well DIN does when trained on all data in one place, beside simpler references.

`python -m checks.studies.din_central kuairand --data-dir FOLDER` (or movielens-1m, clicks) prints
rows of docs/results/din-central.md. Every setting is chosen by the AUC on validation events; test
events are looked at once, with the chosen ones.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from checks.studies.click_arguments import chosen_log
from fedmerit.behaviours import LocalData
from fedmerit.rng import stream
from fedmerit.simulation.clicks.log import CONTEXT, ITEM, TEST, TRAIN, VALID, ClickLog
from fedmerit.simulation.config import DinChoice
from fedmerit.simulation.metrics import auc
from fedmerit.simulation.training.din import build_din, din_scores, train_dins
from fedmerit.simulation.training.network import Network
from fedmerit.simulation.training.settings import LocalTraining, TrainingJob

RATES, MOST_EPOCHS, BATCH = (0.03, 0.1, 0.3), 8, 16
SMOOTHING = (1, 5, 20, 100)
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)


def popularity(log: ClickLog) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each item's click rate, pulled towards the mean by so many events."""
    train = log.rows(TRAIN)
    item, label = log.x[train, ITEM], log.label[train]
    shown = np.bincount(item, minlength=log.items + 1)
    clicked = np.bincount(item, weights=label, minlength=log.items + 1)
    for pull in SMOOTHING:
        rate = (clicked + pull * label.mean()) / (shown + pull)
        yield f"pull {pull}", rate[log.x[:, ITEM]]


def summed_logits(log: ClickLog, *, user: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Yield logistic regressions on item, context, category and, if asked, user."""
    columns = [
        (log.x[:, ITEM], log.items + 1),
        (log.x[:, CONTEXT], log.contexts),
        (log.category[log.x[:, ITEM]], log.categories + 1),
    ]
    if user:
        columns.append((log.user, log.users))
    rows = np.arange(len(log.user))
    ones = np.ones(len(rows))
    x = sparse.hstack(
        [sparse.csr_matrix((ones, (rows, ids)), shape=(len(rows), n)) for ids, n in columns]
    ).tocsr()
    train = log.rows(TRAIN)
    for penalty in PENALTIES:
        model = LogisticRegression(C=penalty, max_iter=300).fit(x[train], log.label[train])
        yield f"C {penalty}", model.decision_function(x)


def din(log: ClickLog, *, user: bool, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the scores of DIN after every epoch at every learning rate."""
    if user:  # one more context column
        x = np.insert(log.x, CONTEXT + 1, log.contexts + log.user, axis=1)
        log = replace(log, x=x, contexts=log.contexts + log.users)
    train = log.rows(TRAIN)
    data = LocalData(log.x[train], log.label[train])
    for rate in RATES:
        rng = stream(seed, "central", str(rate))
        module = build_din(log, DinChoice(), rng, columns=2 if user else 1)
        network = Network(module, log.x.shape[1:])
        vector = network.flatten()
        training = LocalTraining(1, BATCH, "sgd", rate, 0.0)
        for epoch in range(1, MOST_EPOCHS + 1):
            job = TrainingJob(data, rng, rng)
            vector = vector + train_dins(network, vector, [job], training, rate)[0]
            yield f"rate {rate}, epoch {epoch}", din_scores(network, vector, log.x)


def best(name: str, candidates: Iterator[tuple[str, np.ndarray]], log: ClickLog) -> str:
    valid, test = log.rows(VALID), log.rows(TEST)
    chosen = max(
        ((auc(s[valid], log.label[valid]), auc(s[test], log.label[test]), how))
        for how, s in candidates
    )
    return f"| {log.name} | {name} | {chosen[2]} | {chosen[0]:.4f} | {chosen[1]:.4f} |"


def main() -> None:
    log, seed = chosen_log(seed=0)
    print("| log | model | chosen on validation | AUC, validation | AUC, test |")
    print("|---|---|---|---:|---:|")
    print(best("item popularity", popularity(log), log), flush=True)
    for user in (False, True):
        kind = "with a user feature" if user else "without"
        print(best(f"summed logits, {kind}", summed_logits(log, user=user), log), flush=True)
        print(best(f"DIN, {kind}", din(log, user=user, seed=seed), log), flush=True)


if __name__ == "__main__":
    main()
