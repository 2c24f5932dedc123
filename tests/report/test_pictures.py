"""Pictures of the pages as people see them, from two runs that are simulated here.

They go to docs/images with ``FEDMERIT_PICTURES=docs/images`` (`make pictures`), else to a folder of
the test's own: they must come out, and show something.
"""

import os
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("torch")

from fedmerit.behaviours import Assignment
from fedmerit.incentive.rewards import PositiveShare
from fedmerit.ledger import Ledger
from fedmerit.scorers import make_scorer
from fedmerit.server import RoundRules
from fedmerit.simulation.config import FederationConfig, Partition
from fedmerit.simulation.data.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run
from fedmerit.simulation.training.settings import LocalTraining

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.slow
CALLED = (
    "Aarhus", "Basel", "Cork", "Dresden", "Evora", "Florence", "Ghent", "Haarlem", "Ioannina",
    "Jena", "Krakow", "Lyon", "Malmo", "Nantes", "Oulu", "Porto",
)  # fmt: skip


def wide(height):
    return {"viewport": {"width": 1180, "height": height}, "reduced_motion": "reduce"}


PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "color_scheme": "dark",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same federation with fedmerit's weights and with FedAvg's."""
    folder = tmp_path_factory.mktemp("runs")
    for name, weighting in (("fedavg", "size"), ("merit", "gated")):
        config = FederationConfig(
            users=16,
            per_round=16,
            rounds=10,
            seed=3,
            partition=Partition("dirichlet"),
            training=LocalTraining(epochs=2),
            behaviours=Assignment.parse("12% stale, 12% sign-flip, 12% copies"),
            rules=RoundRules(
                scorer=make_scorer("merit", None, None),
                weighting=weighting,
                reward=PositiveShare(budget=10_000),
            ),
        )
        federation = Federation(config, load("digits"))
        with Ledger.open(folder / f"{name}.ledger") as ledger:
            ledger.start_run({"weighting": weighting, "seed": 3}, "0.2.0")
            run(federation, keep=lambda record: ledger.append(named(record)))
    return folder


def named(record):
    """Clients as they call themselves, beside their numbers."""
    return replace(
        record,
        clients=tuple(replace(one, label=CALLED[int(one.client)]) for one in record.clients),
    )


@pytest.fixture
def folder(tmp_path):
    return Path(os.environ.get("FEDMERIT_PICTURES") or tmp_path)


@pytest.mark.parametrize(
    ("name", "path", "options", "seen"),
    [
        ("live", "run?id=merit.ledger~1", wide(1360), "#metric-chart"),
        (
            "compare",
            "compare?a=fedavg.ledger~1&b=merit.ledger~1",
            wide(1430),
            "#compare-table tbody tr:nth-child(4) > :first-child",
        ),
        (
            "client",
            "run?id=merit.ledger~1#client=5",
            wide(1490),
            "#statement-table tbody tr:nth-child(4) > :first-child",
        ),
        (
            "report",
            "run?id=merit.ledger~1#ranking",
            wide(1800),
            "#rank-table tbody tr:nth-child(4) > :first-child",
        ),
        ("report-phone", "run?id=merit.ledger~1", PHONE, "#tiles"),
    ],
)
def test_pictures_come_out(runs, quiet_page, served, folder, name, path, options, seen):
    server = served(runs)
    page = quiet_page(server.url + path, within=server.url, **options)
    page.wait_for_selector("#live[data-state=on]")
    expect(page.locator(seen)).to_be_in_viewport(ratio=1)  # what its caption speaks of
    out = folder / f"{name}.webp"
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    assert len(picture.getcolors(1 << 20)) > 100  # something was drawn
    smaller(picture).convert("RGB").save(out, lossless=True, quality=100, method=6)


def smaller(picture):
    """A quarter of the bytes: the most frequent colours stay what they are."""
    counted = sorted(picture.getcolors(1 << 20), reverse=True)[:20]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in counted for part in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)
