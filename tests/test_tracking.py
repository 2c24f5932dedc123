import pytest

from fedmerit.errors import DataError
from fedmerit.tracking import MLflowTracker, RoundNumbers, TensorBoardTracker
from fedmerit.types import ClientRecord, RoundRecord
from tests.report.builders import HOSTILE, make_records


def test_numbers_of_a_round_by_hand():
    record = RoundRecord(
        3,
        (
            ClientRecord("a/b", 0.2, 0.75, reward=7, behaviour="honest"),
            ClientRecord("a?b", 0.0, 0.25, flagged=True, behaviour="rider"),
            ClientRecord("late", float("nan"), float("nan"), reward=1),  # paid, not used
        ),
        metrics={"accuracy": 0.5, "loss": float("nan")},
    )
    numbers = RoundNumbers().of(record)
    assert numbers == {
        "metrics/accuracy": 0.5, "round/clients": 2, "round/flagged": 1, "round/rejected": 0,
        "round/paid": 8, "round/mean score": 0.1,
        "weight of group/honest": 0.75, "weight of group/rider": 0.25,
        "score/a_b 0": 0.2, "weight/a_b 0": 0.75, "flagged/a_b 0": 0.0,
        "score/a_b 1": 0.0, "weight/a_b 1": 0.25, "flagged/a_b 1": 1.0,
    }  # fmt: skip
    assert "score/a_b 1" not in RoundNumbers(per_client=1).of(record)


def test_tensorboard_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with TensorBoardTracker(tmp_path) as tracker:
        for record in make_records():
            tracker(record)
    events = EventAccumulator(str(tmp_path)).Reload()
    accuracy = [(event.step, event.value) for event in events.Scalars("metrics/accuracy")]
    assert accuracy == [(n, pytest.approx(1 - 0.5**n)) for n in range(1, 7)]
    assert any("script" in tag and "<" not in tag for tag in events.Tags()["scalars"])


def test_mlflow_reads_what_was_written(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = tmp_path / "store"
    for seed in (1, 2):  # the second run joins the experiment of the first
        with MLflowTracker(str(store), settings={"seed": seed, "name": HOSTILE}) as tracker:
            for record in make_records():
                tracker(record)
    client = MlflowClient(tracking_uri=store.as_uri())
    history = client.get_metric_history(tracker.run_id, "round/flagged")
    assert [(metric.step, metric.value) for metric in history] == [(n, 3.0) for n in range(1, 7)]
    found = client.get_run(tracker.run_id)
    assert (found.data.params["seed"], found.info.status) == ("2", "FINISHED")
    with pytest.raises(KeyboardInterrupt), MLflowTracker(str(store)) as tracker:
        raise KeyboardInterrupt
    assert client.get_run(tracker.run_id).info.status == "KILLED"


def test_a_folder_that_mlflow_does_not_take_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    with pytest.raises(DataError, match="MLFLOW_ALLOW_FILE_STORE=true"):
        MLflowTracker(str(tmp_path / "store"))
