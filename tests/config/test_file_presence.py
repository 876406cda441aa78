from pathlib import Path

import pytest

from tests.public.config import is_there


def test_a_path_that_cannot_be_examined_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nothing")
    assert is_there(tmp_path)
    assert is_there(tmp_path / "file")
    assert not is_there(tmp_path / "nothing")
    assert not is_there(tmp_path / "file" / "below")
    assert is_there(tmp_path / "link", follow_symlinks=False)
    assert not is_there(tmp_path / "link")
    # Of root, this is what the system refuses to examine.
    with pytest.raises(OSError, match="File name too long"):
        is_there(tmp_path / ("x" * 300))
