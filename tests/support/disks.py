"""A disk that refuses, for a while and under a clock that stands still."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import trio.testing
from trio.testing import MockClock

from tests.public.kernel import StorageUnavailable
from tests.public.store import LAST_RETRY, Store
from tests.store.support import refusal_of
from tests.support.stores import connection_of


async def refuse(*_: object, **__: object) -> NoReturn:
    """Be a method of a store whose disk is full."""
    raise StorageUnavailable("The disk is full.")


def make_read_only(store: Store, yes: bool) -> None:
    """Make SQLite refuse every write, or none."""
    connection_of(store).execute(f"PRAGMA query_only = {int(yes)}")


@contextmanager
def read_only(store: Store) -> Iterator[None]:
    """Make SQLite refuse every write until the end of the block."""
    make_read_only(store, True)
    try:
        yield
    finally:
        make_read_only(store, False)


async def writes_again(store: Store, clock: MockClock) -> None:
    """Move the clock until the store has found out that the disk works.

    One jump is not enough. The store tries in a worker thread; a try that began while the disk refused can
    fail after the jump, and the store then sleeps on a clock that nobody moves.
    """
    while refusal_of(store) is not None:
        clock.jump(LAST_RETRY)
        await trio.testing.wait_all_tasks_blocked(0.001)
