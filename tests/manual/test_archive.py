"""The archive of the manual gives back what was packed, and depends on nothing but its content."""

import random

import pytest

from hookgw.manual.archive import Archive, pack

FILES = {"docs": b"<nav>" + bytes(range(256)) * 300, "docs/a": b"a", "docs/empty": b""}


def test_it_gives_back_every_file() -> None:
    archive = Archive(pack(FILES, "docs"))
    assert {name: archive.read(name) for name in archive.names} == FILES


def test_the_order_of_files_changes_nothing() -> None:
    assert pack(dict(reversed(FILES.items())), "docs") == pack(FILES, "docs")


def test_what_pages_have_in_common_is_there_once() -> None:
    common = random.Random(1).randbytes(20_000)  # which cannot be compressed
    assert len(pack({"docs": common, "docs/a": common + b"a"}, "docs")) < 21_000


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        Archive(pack(FILES, "docs")).read("docs/b")
