"""In a checkout, the manual is made when it is asked for, and kept until something in it changes."""

from pathlib import Path

import pytest

from hookgw.manual import make, packaged
from hookgw.manual.archive import pack


def test_it_is_made_anew_when_a_file_that_it_shares_with_the_dashboard_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("pyproject.toml", "config.example.yaml"):
        (tmp_path / name).touch()
    shared, made = tmp_path / "clipboard.js", list[str]()

    def packed(root: Path, version: str) -> bytes:
        assert root == tmp_path
        made.append(version)
        return pack({"page": b""}, "page")

    monkeypatch.setattr(make, "packed", packed)
    monkeypatch.setattr(packaged, "__file__", str(tmp_path / "hookgw" / "manual" / "packaged.py"))
    monkeypatch.setattr(packaged, "files", lambda _: tmp_path)
    monkeypatch.setattr(packaged, "SHARED_ASSETS", (shared,))
    for content, times in ((b"1", 1), (b"1", 1), (b"2", 2)):
        shared.write_bytes(content)
        assert packaged.open_manual() is not None
        assert len(made) == times
