"""What trackers hold afterwards is what was recorded."""

import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from fedmerit.errors import DataError, SettingError
from fedmerit.flags import Flag, Kind
from fedmerit.tracking import (
    MLflowTracker,
    OpenTelemetryTracker,
    PrometheusTracker,
    RoundNumbers,
    TensorBoardTracker,
    WandbTracker,
)
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.report.builders import HOSTILE, make_records

COPY = Flag(Kind.COPY, twin="a/b")


def test_numbers_of_a_round_by_hand():
    record = RoundRecord(
        3,
        (
            ClientRecord("a/b", 0.2, 0.75, reward=7, behaviour="honest"),
            ClientRecord("a?b", 0.0, 0.25, flag=COPY, behaviour="rider", label="<b>"),
            ClientRecord("c", 0.0, 0.0, p_value=0.01, flag=Flag(Kind.UNDECIDED)),
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
        "score/a_b 0": 0.2, "weight/a_b 0": 0.75, "flagged/a_b 0": 0.0, "paid/a_b 0": 7.0,
        "score/a_b _b_ 1": 0.0, "weight/a_b _b_ 1": 0.25, "flagged/a_b _b_ 1": 1.0,
        "score/c 2": 0.0, "weight/c 2": 0.0, "flagged/c 2": 0.0, "evidence/c 2": 2.0,
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


@pytest.mark.slow
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


@pytest.mark.slow  # it starts a process of its own
def test_weights_and_biases_reads_what_was_written(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    monkeypatch.setenv("WANDB_SILENT", "true")
    with WandbTracker(folder=tmp_path, mode="offline", settings={"seed": 3}) as tracker:
        for record in make_records():
            tracker(record)
    (path,) = tmp_path.rglob("*.wandb")

    def entries():
        store = DataStore()
        store.open_for_scan(str(path))
        found = []
        while (data := store.scan_data()) is not None:
            found.append(Record())
            found[-1].ParseFromString(data)
        store.close()
        return found

    # Another process writes the file; the record of the run's end is the last.
    last = time.monotonic() + 60
    while all(entry.WhichOneof("record_type") != "exit" for entry in entries()):
        assert time.monotonic() < last, "the run's end was never written"
        time.sleep(0.1)
    rounds, alerts, config = {}, [], {}
    for entry in entries():
        kind = entry.WhichOneof("record_type")
        if kind == "history":
            row = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in entry.history.item
            }
            rounds[row["_step"]] = row
        elif kind == "alert":
            alerts.append((entry.alert.title, entry.alert.text))
        elif kind == "run":
            config = {item.key: item.value_json for item in entry.run.config.update}
    assert sorted(rounds) == list(range(1, 7))
    assert [rounds[n]["metrics/accuracy"] for n in (1, 6)] == [0.5, 1 - 0.5**6]
    assert {row["round/flagged"] for row in rounds.values()} == {3}
    assert config["seed"] == "3"
    assert [title for title, _ in alerts] == ["round 1: 3 clients flagged"]  # once, not every round
    assert "agrees only with a clique" in alerts[0][1]


def read_gauges(reader):
    found = {}
    data = reader.get_metrics_data()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            found[metric.name, tuple(sorted(point.attributes.items()))] = point.value
    return found


def test_opentelemetry_tells_the_last_round_and_totals():
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    tracker = OpenTelemetryTracker(metrics.MeterProvider([reader]), run="r", per_client=2)
    for number in (1, 2):
        clients = (
            ClientRecord("a", 0.2 * number, 0.75, p_value=1e-3, reward=7, label="<b>"),
            ClientRecord("b", 0.0, 0.25, flag=COPY),
            ClientRecord("third", 0.0, 0.0),
        )
        tracker(RoundRecord(number, clients, metrics={"auc": number / 10, "loss": float("nan")}))
    a = (("client", "a"), ("label", "<b>"), ("run", "r"))
    b = (("client", "b"), ("run", "r"))
    run = (("run", "r"),)
    assert read_gauges(reader) == {
        ("fedmerit.client.score", a): 0.4, ("fedmerit.client.score", b): 0.0,
        ("fedmerit.client.weight", a): 0.75, ("fedmerit.client.weight", b): 0.25,
        ("fedmerit.client.evidence", a): pytest.approx(3.0),
        ("fedmerit.client.flagged", a): 0.0, ("fedmerit.client.flagged", b): 1.0,
        ("fedmerit.client.paid", a): 14,
        ("fedmerit.client.flags", (*b[:1], ("kind", "copy"), *b[1:])): 2,
        ("fedmerit.round", run): 2, ("fedmerit.clients", run): 3, ("fedmerit.rejected", run): 0,
        ("fedmerit.flagged", run): 1,
        ("fedmerit.metric", (("name", "auc"), ("run", "r"))): 0.2,
    }  # fmt: skip


def test_prometheus_reads_what_the_board_and_the_alerts_ask_for():
    pytest.importorskip("opentelemetry.exporter.prometheus")
    parser = pytest.importorskip("prometheus_client.parser")
    with PrometheusTracker(0, run="night") as tracker:
        for record in make_records():
            tracker(record)
        with urllib.request.urlopen(f"http://127.0.0.1:{tracker.port}/metrics") as answer:
            text = answer.read().decode()
        with pytest.raises(SettingError, match="cannot listen on"):
            PrometheusTracker(tracker.port)
    samples = [s for family in parser.text_string_to_metric_families(text) for s in family.samples]
    names = {sample.name for sample in samples}
    # What the alerts ask for is there in the round of the first flag, of each client with gauges.
    told = {s.labels["client"]: s.value for s in samples if s.name == "fedmerit_client_flagged"}
    last = make_records()[-1].clients
    assert told == {client.client: client.flagged for client in last}
    (count,) = [s.value for s in samples if s.name == "fedmerit_flagged"]
    assert count == sum(client.flagged for client in last) > 0
    flagged = {s.labels["client"] for s in samples if s.name == "fedmerit_client_flags_total"}
    assert flagged == {"hospital-9", "hospital-10", "hospital-11"}
    assert HOSTILE in {sample.labels.get("client") for sample in samples}
    folder = Path(__file__).parents[1] / "docs" / "monitoring"
    board = json.loads((folder / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    asked += re.findall(r"expr: (.*)", (folder / "alerts.yml").read_text())
    assert len(asked) >= 9
    for query in asked:
        used = set(re.findall(r"fedmerit_\w+", query))
        assert used, query
        assert used <= names, query


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Prometheus) is not here")
def test_alerts_fire_when_they_should_and_at_no_other_time(tmp_path):
    root = Path(__file__).parents[1]
    cases = (root / "tests" / "monitoring" / "alerts_test.yml").read_text(encoding="utf-8")
    file = tmp_path / "cases.yml"
    rules = root / "docs" / "monitoring" / "alerts.yml"
    file.write_text(cases.replace("RULES", str(rules)), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
