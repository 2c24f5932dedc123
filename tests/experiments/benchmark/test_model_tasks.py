"""The tasks of the models benchmark: what is sent, who holds what, and where data comes from."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedmerit.behaviours import parse_behaviour
from fedmerit.errors import DataError, UnknownNameError
from fedmerit.experiments.benchmark.models.combine import flatten, same_bits
from fedmerit.experiments.benchmark.models.federation import make_cast
from fedmerit.experiments.benchmark.models.tasks import corpus
from fedmerit.experiments.benchmark.models.tasks.networks import AttentionBlock
from fedmerit.experiments.benchmark.models.tasks.registry import TASKS, make_task
from fedmerit.experiments.benchmark.models.tasks.task import Training
from fedmerit.experiments.benchmark.models.training import evaluate, sent_state, train_client
from fedmerit.rng import stream
from fedmerit.simulation.data.datasets import SOURCES
from fedmerit.simulation.data.idx import IDX_FILES, encode_idx

# Trained values that are sent, running statistics among them, and clients.
SENT = {
    "batch-norm": (9194, 20),
    "transformer": (43044, 13),
    "lora": (6248, 10),
    "din": (6229, 14),
    "logistic-31": (31, 6),
    "logistic-62": (62, 6),
    "logistic-wine": (42, 6),
    "logistic-digits": (650, 6),
    "mlp-cancer": (530, 8),
    "mlp-digits": (2410, 10),
    "unequal": (13258, 12),
    "identical": (6634, 12),
    "residual": (9674, 10),
    "vision": (19594, 10),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Enough random pictures, and texts, for every task."""
    path = tmp_path_factory.mktemp("data")
    rng = stream(0, "pictures")
    for part, count in (("train", 6000), ("test", 200)):
        labels = rng.integers(0, 10, size=count, dtype=np.uint8)
        pictures = rng.integers(0, 256, size=(count, 28, 28), dtype=np.uint8)
        for kind, array in (("x", pictures), ("y", labels)):
            (path / IDX_FILES[f"{part}_{kind}"]).write_bytes(encode_idx(array))
    for author in range(15):
        (path / f"{author:02d}.txt").write_text(corpus.invent(author))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_every_task_sends_what_it_says_and_can_be_trained(name, folder):
    task = make_task(name, 900, quick=True, folder=folder)
    state = sent_state(task.module)
    assert (flatten(state).size, len(task.clients)) == SENT[name]
    assert task.name == name
    assert 8 <= task.rounds <= 15
    assert min(task.sizes) >= 10
    assert 0 <= evaluate(task, state) < 0.9
    smallest = task.clients[int(np.argmin(task.sizes))]
    trained = train_client(task, state, smallest, stream(1))
    assert np.isfinite(flatten(trained)).all()
    assert not same_bits(trained, state)
    again = make_task(name, 900, quick=True, folder=folder)
    assert same_bits(sent_state(again.module), state)
    assert again.sizes == task.sizes
    for cheat in ("fake-data", "label-flip", "lazy"):
        cast = make_cast(task, parse_behaviour(cheat), 900)
        data = cast.behaviours[cast.liars[0]].local_data(smallest, stream(1))
        assert data.y.shape[1:] == smallest.y.shape[1:]
        assert data.y.max() < task.classes
        train_client(task, state, data, stream(1))


def test_only_adapters_are_sent_and_they_are_nothing_at_first(folder):
    task = make_task("lora", 900, quick=True, folder=folder)
    state = sent_state(task.module)
    assert {name.rpartition(".")[2] for name in state} == {"down", "up"}
    assert all(not value.any() for name, value in state.items() if name.endswith("up"))
    trained = train_client(task, state, task.clients[0], stream(1))
    assert trained.keys() == state.keys()


def test_a_user_of_the_click_log_leaves_rows_of_items_untouched():
    task = make_task("din", 900, quick=True)
    state = sent_state(task.module)
    user = task.clients[0]
    trained = train_client(task, state, user, stream(1))
    moved = (trained["items.weight"] != state["items.weight"]).any(axis=1)
    seen = np.unique(np.delete(user.x, 1, axis=1))  # candidates and histories, without contexts
    assert set(np.flatnonzero(moved)) <= set(seen)
    assert 0.1 < moved.mean() < 0.9


def test_running_statistics_are_sent_and_sizes_are_unequal(folder):
    task = make_task("batch-norm", 900, quick=True, folder=folder)
    assert {"1.running_mean", "1.running_var"} < sent_state(task.module).keys()
    sizes = make_task("unequal", 900, quick=True, folder=folder).sizes
    assert max(sizes) == 20 * min(sizes)


def test_a_causal_block_does_not_look_ahead():
    block = AttentionBlock(8, 2, causal=True)
    x = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
    changed = x.clone()
    changed[:, 3:] += 1
    with torch.no_grad():
        first, second = block(x), block(changed)
    torch.testing.assert_close(first[:, :3], second[:, :3])
    assert not torch.allclose(first[:, 3:], second[:, 3:])


def test_texts_come_from_files_the_bible_or_nowhere(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus.shutil, "which", lambda _: None)
    origin, found = corpus.texts(3, tmp_path)
    assert origin == "an invented language"
    assert found == corpus.texts(3, None)[1]
    assert len({len(text) for text in found.values()}) == 3
    (tmp_path / "one.txt").write_text("abcde" * 8000)
    origin, found = corpus.texts(4, tmp_path)
    assert (origin, {len(text) for text in found.values()}) == ("files", {10_000})
    with pytest.raises(DataError, match="5 texts of at least 10000 characters are needed, got 0"):
        corpus.texts(5, tmp_path)
    told = "Ge1:1 In the beginning\nGe1:2 And\n1Jn5:21 Little children\n\nnoise\n"
    monkeypatch.setattr(corpus.shutil, "which", lambda _: "bible")
    monkeypatch.setattr(
        corpus.subprocess, "run", lambda *_, **__: type("Told", (), {"stdout": told})
    )
    assert corpus.bible() == {"Ge": "In the beginning\nAnd", "1Jn": "Little children"}


def test_missing_pictures_and_wrong_names_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMERIT_CACHE", str(tmp_path))
    nowhere = replace(SOURCES["fashion-mnist"], package=tmp_path / "nowhere")
    monkeypatch.setitem(SOURCES, "fashion-mnist", nowhere)
    with pytest.raises(DataError, match="apt install dataset-fashion-mnist"):
        make_task("identical", 1, quick=True)
    with pytest.raises(UnknownNameError, match="did you mean 'lora'"):
        make_task("lara", 1, quick=True)
    with pytest.raises(ValueError, match="optimiser must be sgd or adam, got rms"):
        Training("rms")
