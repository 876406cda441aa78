"""Objects that work together."""

from __future__ import annotations

import weakref

from hookgw.kernel.collaborator import Collaborator


class Door(Collaborator):
    secret: str

    def __post_init__(self) -> None:
        self.opened = 0


def test_it_is_equal_only_to_itself_and_shows_no_field() -> None:
    door = Door("s3cret")

    assert door == door
    assert door != Door("s3cret")
    assert len({door, Door("s3cret")}) == 2
    assert "s3cret" not in repr(door)


def test_a_table_may_hold_it_until_nobody_else_does() -> None:
    door = Door("s3cret")
    times = weakref.WeakKeyDictionary({door: 1})
    del door

    assert not times


def test_it_may_have_state_that_is_no_field() -> None:
    door = Door(secret="s3cret")
    door.opened += 1

    assert (door.opened, Door("s3cret").opened) == (1, 0)
