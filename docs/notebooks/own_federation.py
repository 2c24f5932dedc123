# %% [markdown]
# # A federation of your own in ten cells
#
# Eight hospitals train a small network on handwritten digits, in plain NumPy. One of them replays what the
# server sent last, one sends noise. Nobody tells the server, and the server has no test data.
#
# It needs scikit-learn for the digits, pandas for the data frame and matplotlib for the picture:
# `pip install 'fedmerit[sim,frames,report]'`, or `pip install scikit-learn pandas matplotlib` beside fedmerit. Until fedmerit is on
# PyPI, install it from its source folder.

# %%
import numpy as np
from sklearn.datasets import load_digits

import fedmerit

# %% [markdown]
# Your data: every hospital has its own. Put anything here.

# %%
x, y = load_digits(return_X_y=True)
x = x / 16
parts = np.array_split(np.random.default_rng(0).permutation(1400), 8)
data = {f"hospital {n}": (x[part], y[part]) for n, part in enumerate(parts)}


# %% [markdown]
# Your model: a mapping from name to array, as a `state_dict` of PyTorch would be.

# %%
rng = np.random.default_rng(1)
model = {
    "hidden.weight": rng.normal(0, 0.2, (64, 32)),
    "hidden.bias": np.zeros(32),
    "out.weight": rng.normal(0, 0.2, (32, 10)),
    "out.bias": np.zeros(10),
}


# %% [markdown]
# Your training: from a model to a model.


# %%
def train(model, x, y, steps=20, rate=0.5):
    w, a, v, b = (array.copy() for array in model.values())
    for _ in range(steps):
        hidden = np.maximum(x @ w + a, 0)
        logits = hidden @ v + b
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        back = (p @ v.T) * (hidden > 0)
        v, b = v - rate * hidden.T @ p, b - rate * p.sum(0)
        w, a = w - rate * x.T @ back, a - rate * back.sum(0)
    return dict(zip(model, (w, a, v, b), strict=True))


# %% [markdown]
# The server: one object, which keeps model, history, evidence and the record. It pays 10,000 a round.

# %%
server = fedmerit.Server(model, reward="positive:budget=10000", ledger="own.ledger", seed=0)

# %% [markdown]
# Six rounds. Hospital 6 sends the last global update again, hospital 7 sends noise of the right length.

# %%
before = model
for _ in range(6):
    now = server.model
    models = {name: train(now, *part) for name, part in data.items()}
    models["hospital 6"] = {k: now[k] + (now[k] - before[k]) for k in now}
    models["hospital 7"] = {k: now[k] + rng.normal(0, 0.05, now[k].shape) for k in now}
    result = server.settle(models)
    before = now

# %% [markdown]
# Who contributed what to the last round? A result is a table.

# %%
result

# %%
result.plot()

# %% [markdown]
# And over all rounds: the ledger is a data frame.

# %%
server.close()
with fedmerit.Ledger.open("own.ledger", read_only=True) as ledger:
    rounds = ledger.to_pandas()
rounds.groupby("client")[["score", "weight", "reward", "flagged"]].sum().round(3)

# %% [markdown]
# What did the model learn? Digits that nobody trained on:

# %%
w, a, v, b = server.model.values()
guess = (np.maximum(x[1400:] @ w + a, 0) @ v + b).argmax(1)
print(f"accuracy {np.mean(guess == y[1400:]):.2f}")
