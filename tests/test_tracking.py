import pytest

from fedmerit.errors import DataError
from fedmerit.flags import Flag, Kind
from fedmerit.tracking import MLflowTracker, RoundNumbers, TensorBoardTracker
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.report.builders import HOSTILE, make_records

COPY = Flag(Kind.COPY, twin="a/b")


def test_numbers_of_a_round_by_hand():
    record = RoundRecord(
        3,
        (
            ClientRecord("a/b", 0.2, 0.75, reward=7, behaviour="honest"),
            ClientRecord("a?b", 0.0, 0.25, flag=COPY, behaviour="rider", label="<b>"),
            ClientRecord("c", 0.0, 0.0, flag=Flag(Kind.UNDECIDED)),
            ClientRecord("late", float("nan"), float("nan"), reward=1),  # paid, not used
        ),
        (Rejection("late", "not finite"),),
        metrics={"accuracy": 0.5, "loss": float("nan")},
    )
    numbers = RoundNumbers().of(record)
    assert numbers == {
        "metrics/accuracy": 0.5, "round/clients": 3, "round/flagged": 1, "round/rejected": 1,
        "round/paid": 8, "round/mean score": pytest.approx(0.2 / 3),
        "kind/copy": 1, "kind/undecided": 1, "kind/refused": 1,
        "weight of group/honest": 0.75, "weight of group/rider": 0.25,
        "score/a_b 0": 0.2, "weight/a_b 0": 0.75, "flagged/a_b 0": 0.0,
        "score/a_b _b_ 1": 0.0, "weight/a_b _b_ 1": 0.25, "flagged/a_b _b_ 1": 1.0,
        "score/c 2": 0.0, "weight/c 2": 0.0, "flagged/c 2": 0.0,
    }  # fmt: skip
    assert "score/a_b _b_ 1" not in RoundNumbers(per_client=1).of(record)


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
