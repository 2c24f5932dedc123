"""Pictures of the pages as people see them, from two runs that are simulated here.

They go to docs/images with ``FEDMERIT_PICTURES=docs/images`` (`make pictures`), else to a folder of
the test's own: they must come out, and show something.
"""

import os
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
from fedmerit.simulation.datasets import load
from fedmerit.simulation.federation import Federation
from fedmerit.simulation.run import run
from fedmerit.simulation.training import LocalTraining
from tests.report.test_serve import serving

pytestmark = pytest.mark.slow
WIDE = {"viewport": {"width": 1180, "height": 900}}
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
            run(federation, keep=ledger.append)
    return folder


@pytest.fixture
def folder(tmp_path):
    return Path(os.environ.get("FEDMERIT_PICTURES") or tmp_path)


@pytest.mark.parametrize(
    ("name", "path", "options", "whole"),
    [
        ("live", "run?id=merit.ledger~1", WIDE, False),
        ("compare", "compare?a=fedavg.ledger~1&b=merit.ledger~1", WIDE, False),
        ("client", "run?id=merit.ledger~1#client=5", WIDE, False),
        ("report", "run?id=merit.ledger~1", WIDE, True),
        ("report-phone", "run?id=merit.ledger~1", PHONE, False),
    ],
)
def test_pictures_come_out(runs, quiet_page, folder, name, path, options, whole):
    with serving(runs) as server:
        page = quiet_page(server.url + path, within=server.url, **options)
        page.wait_for_selector("#live[data-state=on]")
        out = folder / f"{name}.png"
        clip = {"x": 0, "y": 0, "width": 1180, "height": 2000} if whole else None
        page.screenshot(path=out, full_page=whole, clip=clip)
        picture = Image.open(out).convert("RGB")
        assert len(picture.getcolors(1 << 20)) > 100  # something was drawn
        picture.quantize(48).save(out, optimize=True)  # a third of the bytes
