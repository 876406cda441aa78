"""The rules of a disk: what is certain after a power cut, what is possible, and what is not."""

import random
from collections.abc import Sequence

import pytest

from tests.simulation.power.disk import EVERY_RULES, MOODS, Disk, Files, Names, Rules
from tests.simulation.power.operations import (
    FOLDER,
    Link,
    Mark,
    Operation,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)


def states(
    operations: Sequence[Operation], rules: Rules, found: Files | None = None, tries: int = 600
) -> list[Files]:
    """Return the states that the disk may have after these operations."""
    disk = Disk(found or {})
    for operation in operations:
        disk.do(operation)
    chance = random.Random(1)
    return [disk.cut(rules, chance) for _ in range(tries)]


def contents(*operations: Operation, old: bytes, sector: int = 512) -> set[bytes]:
    """Return what a file, number 1, may hold."""
    return {state["file"] for state in states([*operations], Rules("posix", sector), {"file": old})}


@pytest.mark.parametrize("rules", EVERY_RULES)
def test_what_is_synchronized_is_there(rules: Rules) -> None:
    done: list[Operation] = [
        Link(FOLDER, "new", 1),
        Write(1, 0, b"one"),
        Sync(1, 2),
        Sync(FOLDER, 3),
        Mark(b"promised"),
    ]
    assert all(state == {"new": b"one"} for state in states(done, rules))


def test_a_write_may_be_lost_or_there() -> None:
    assert contents(Write(1, 1, b"--"), old=b"abcd") == {b"abcd", b"a--d"}


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    late: list[Operation] = [Write(1, 0, b"1"), Write(1, 1, b"2"), Sync(1, 1)]
    assert contents(*late, old=b"abcd") == {b"1bcd", b"12cd"}


def test_writes_to_different_sectors_change_their_order() -> None:
    first, second = Write(1, 0, b"1"), Write(1, 512, b"2")
    found = contents(first, second, old=bytes(1024))
    assert {(content[:1], content[512:513]) for content in found} == {
        (b"\0", b"\0"),
        (b"1", b"\0"),
        (b"\0", b"2"),
        (b"1", b"2"),
    }


def test_a_later_write_to_a_sector_is_not_there_without_the_earlier_one() -> None:
    assert contents(Write(1, 0, b"1"), Write(1, 1, b"2"), old=b"abcd") == {b"abcd", b"1bcd", b"12cd"}


def test_a_write_is_torn_between_sectors_and_never_within() -> None:
    found = contents(Write(1, 0, b"x" * 1024), old=b"o" * 1024)
    assert found == {a * 512 + b * 512 for a in (b"o", b"x") for b in (b"o", b"x")}
    assert contents(Write(1, 0, b"x" * 1024), old=b"o" * 1024, sector=4096) == {b"o" * 1024, b"x" * 1024}


def test_a_file_that_grew_may_have_its_size_before_its_bytes() -> None:
    assert contents(Write(1, 0, b"x" * 600), old=b"") == {
        b"",
        b"x" * 600,
        bytes(600),
        b"x" * 512 + bytes(88),
        bytes(512) + b"x" * 88,
    }


def test_where_a_file_grew_anything_may_be() -> None:
    rules = Rules("posix", 512, fills=False)
    grown: list[Operation] = [Write(1, 0, b"x" * 1024)]
    found = {state["file"] for state in states(grown, rules, {"file": b"o" * 512})}
    assert len(found) > 50
    assert {content[:512] for content in found} == {b"o" * 512, b"x" * 512}


def test_a_cut_off_file_may_be_back() -> None:
    assert contents(Truncate(1, 0), old=b"abcd") >= {b"", b"abcd"}
    assert contents(Truncate(1, 0), Sync(1, 1), old=b"abcd") == {b""}
    assert contents(Truncate(1, 6), Sync(1, 1), old=b"abcd") == {b"abcd\0\0"}


@pytest.mark.parametrize(("names", "there"), [("journal", True), ("posix", False)])
def test_the_name_of_a_new_file_that_is_synchronized(names: Names, there: bool) -> None:
    done: list[Operation] = [Link(FOLDER, "new", 1), Write(1, 0, b"one"), Sync(1, 2)]
    found = states(done, Rules(names))
    assert all(state == {"new": b"one"} for state in found) is there
    assert there or {} in found


@pytest.mark.parametrize(("names", "possible"), [("journal", False), ("posix", True)])
def test_names_change_in_order_with_a_journal_alone(names: Names, possible: bool) -> None:
    moved: list[Operation] = [Rename(FOLDER, "a", FOLDER, "aside"), Rename(FOLDER, "b", FOLDER, "a")]
    found = [set(state) for state in states(moved, Rules(names), {"a": b"", "b": b""})]
    assert {"a", "b"} in found
    assert {"aside", "b"} in found
    assert {"aside", "a"} in found
    # The second rename without the first one.
    assert ({"a"} in found) is possible


def test_what_is_in_a_folder_without_a_name_is_lost() -> None:
    inside: list[Operation] = [
        Link(FOLDER, "sub", 1, is_folder=True),
        Link(1, "new", 2),
        Write(2, 0, b"1"),
        Sync(2, 3),
        Sync(1, 4),
    ]
    found = states(inside, Rules("posix"))
    assert {} in found
    assert {"sub/": b"", "sub/new": b"1"} in found
    assert all("sub/new" in state for state in found if state)
    assert all(states([*inside, Sync(FOLDER, 5)], Rules("posix")))


def test_an_open_file_without_a_name_is_lost() -> None:
    gone: list[Operation] = [
        Link(FOLDER, "new", 1),
        Write(1, 0, b"1"),
        Unlink(FOLDER, "new"),
        Sync(1, 3),
        Sync(FOLDER, 4),
    ]
    assert states(gone, Rules("posix")) == [{}] * 600


@pytest.mark.parametrize("mood", MOODS)
def test_every_mood_gives_what_is_possible(mood: str) -> None:
    disk = Disk({"file": b"o" * 2048})
    operations: list[Operation] = [Write(1, 100, b"x" * 1000), Truncate(1, 700), Write(1, 600, b"y" * 300)]
    for operation in operations:
        disk.do(operation)
    chance = random.Random(2)
    for rules in EVERY_RULES:
        for _ in range(50):
            content = disk.cut(rules, chance, mood)["file"]
            assert len(content) in (2048, 700, 900)
            assert set(content) <= set(b"oxy\0")  # it never grew beyond what was there
            assert set(content[:100]) == set(b"o")


def test_everything_is_what_the_program_sees() -> None:
    disk = Disk({"file": b"old"})
    disk.do(Write(1, 0, b"new!"))
    disk.do(Link(FOLDER, "sub", 2, is_folder=True))
    disk.do(Rename(FOLDER, "file", 2, "x"))
    assert disk.everything() == {"sub/x": b"new!"}
