import os
from pathlib import Path

import numpy as np
import pytest

from fedmerit import Server
from fedmerit.disk.files import whole_file
from fedmerit.ledger import Ledger, SigningKey, append_head


def test_a_file_appears_whole(tmp_path):
    with whole_file(tmp_path / "new" / "a.txt") as partial:
        partial.write_text("all of it")
        assert not (tmp_path / "new" / "a.txt").exists()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(tmp_path, stop):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write():
        with whole_file(target) as partial:
            partial.write_text("ne")
            raise stop

    with pytest.raises(stop):
        write()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("what", ["a ledger", "a private key"])
def test_nothing_takes_the_place_of_what_cannot_be_made_again(tmp_path, what):
    target = tmp_path / "precious"
    if what == "a ledger":
        with Ledger.open(target) as ledger:
            ledger.start_run({}, "1")
    else:
        SigningKey.generate().save(target)
    content = target.read_bytes()
    with pytest.raises(FileExistsError, match=f"it is {what}"), whole_file(target) as partial:
        partial.write_text("a list")
    assert target.read_bytes() == content
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(FileExistsError), whole_file(tmp_path / "link"):
        pass


def test_a_link_that_waits_for_what_is_written_is_not_followed(tmp_path):
    """Whoever can write to the folder, and guesses the number of a process, must gain nothing."""
    other = tmp_path / "other.txt"
    other.write_text("mine")
    (tmp_path / f".a.{os.getpid()}.part.txt").symlink_to(other)
    with whole_file(tmp_path / "a.txt") as partial:
        partial.write_text("all of it")
    assert other.read_text() == "mine"


@pytest.fixture
def synced(monkeypatch):
    """What was put on the disk, in order: inode, and the names in its folder at that moment."""
    seen = []

    def note(handle):
        where = Path(f"/proc/self/fd/{handle}").resolve()
        folder = where if where.is_dir() else where.parent
        names = {path.name: path.stat().st_ino for path in folder.iterdir()}
        seen.append((os.fstat(handle).st_ino, names))
        real(handle)

    real = os.fsync
    monkeypatch.setattr(os, "fsync", note)
    return seen


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks Linux what a handle is")
class TestDisk:
    """After a power cut, what was reported as written is there."""

    def test_content_is_on_the_disk_before_the_name_and_the_name_before_anything_else(
        self, tmp_path, synced
    ):
        target = tmp_path / "a.txt"
        target.write_text("old")
        old = target.stat().st_ino
        with whole_file(target) as partial:
            partial.write_text("new")
        new = target.stat().st_ino
        (first, before), (second, after) = synced
        assert (first, before["a.txt"]) == (new, old)
        assert (second, after) == (tmp_path.stat().st_ino, {"a.txt": new})

    def test_a_state_is_on_the_disk_before_the_ledger_has_its_round(self, tmp_path, synced):
        # A ledger that is ahead of the state cannot be continued; one round behind, it is given it.
        state, rng = tmp_path / "run.state", np.random.default_rng(0)
        with Server(np.zeros(400), ledger=tmp_path / "run.ledger", state=state, seed=0) as server:
            for _ in range(2):
                synced.clear()
                server.settle(updates={name: rng.normal(size=400) for name in "abc"})
                server.write()
                newest = state.stat().st_ino
                assert [inode for inode, _ in synced] == [newest, tmp_path.stat().st_ino]

    def test_a_key_and_the_first_line_of_a_log_are_on_the_disk(self, tmp_path, synced):
        key = SigningKey.generate()
        key.save(tmp_path / "key.pem")
        folder = tmp_path.stat().st_ino
        assert [inode for inode, _ in synced] == [(tmp_path / "key.pem").stat().st_ino, folder]
        with Ledger.open(tmp_path / "run.ledger", key=key) as ledger:
            ledger.start_run({}, "1")
            head = ledger.signed_head()
        synced.clear()
        append_head(tmp_path / "heads.log", head)
        assert [inode for inode, _ in synced] == [(tmp_path / "heads.log").stat().st_ino, folder]
