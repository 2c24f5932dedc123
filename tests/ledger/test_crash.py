import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_two_hundred_killed_writers_lose_nothing_they_reported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ledger.crash_nursery", str(tmp_path), "200", "1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        # Forks must not inherit the threads of a numerical library.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["problems"] == []
    assert result["kills"] == 200
    assert result["reported"] > 200
