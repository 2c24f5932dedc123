import pytest

from fedmerit.files import whole_file


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
