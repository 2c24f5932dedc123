"""Compiled kernels are kept where it can be written, and who waits for them is told why."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import fedmerit
from fedmerit.kernels import compiling
from fedmerit.kernels.compiling import NOTICE

COUNT_ONES = """
from numba import uint64
from fedmerit.kernels import bits
from fedmerit.kernels.compiling import kept_in, told
names = []
with told(names.append):
    assert bits.popcount(uint64(7)) == 3
print(kept_in(), *names, sep="\\n")
"""
UNTOLD = """
import numpy as np
from fedmerit.kernels import bits
bits.popcount(np.uint64(7))
bits.random_word(np.uint64(7), 1)
"""


def run(code, **variables):
    told = {**os.environ, "PYTHONPATH": str(Path(fedmerit.__file__).parents[1]), **variables}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=told
    )


@pytest.mark.slow
def test_the_first_compiling_of_a_process_is_said_once_and_what_was_kept_is_not_compiled(tmp_path):
    first, second = (run(UNTOLD, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.stderr.splitlines() == [NOTICE]
    assert second.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("home", [True, False], ids=["home", "no home"])
def test_a_package_that_cannot_be_written_keeps_its_kernels_elsewhere(tmp_path, home):
    """A file in place of __pycache__ keeps everybody from writing there, the administrator too."""
    package = Path(fedmerit.__file__).parent
    shutil.copytree(package, tmp_path / "fedmerit", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fedmerit" / "kernels" / "__pycache__").write_text("")
    (tmp_path / "temporary").mkdir()
    cache = tmp_path / "cache" if home else "/dev/null/nowhere"
    place = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": ""}
    place["TMPDIR"] = str(tmp_path / "temporary")
    folder, *compiled = run(COUNT_ONES, **place).stdout.splitlines()
    assert compiled == ["popcount"]
    assert Path(folder).is_relative_to(cache if home else tmp_path / "temporary")
    again, *compiled = run(COUNT_ONES, **place).stdout.splitlines()
    assert (again, compiled) == (folder, [])  # kept, and found again


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="temporary folders are the user's own")
@pytest.mark.parametrize("planted", ["nothing", "open to others", "a link"])
def test_a_temporary_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch, planted):
    """What is in it is executed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    usual = tmp_path / f"fedmerit-kernels-{os.getuid()}"
    if planted == "open to others":
        usual.mkdir()
        usual.chmod(0o777)
    elif planted == "a link":
        (tmp_path / "elsewhere").mkdir()
        usual.symlink_to(tmp_path / "elsewhere")
    found = compiling._own_folder()
    assert (found == usual) == (planted == "nothing")
    assert found.stat().st_mode & 0o077 == 0


def test_without_any_folder_the_error_says_what_to_set(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/nowhere")
    with pytest.raises(
        RuntimeError, match="need a folder that can be written, set NUMBA_CACHE_DIR"
    ):
        compiling._own_folder()
