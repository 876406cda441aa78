"""What was stored and cannot be read: the lanes that need it wait, so no more is to be accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
import trio

from hookgw.kernel.errors import StorageUnavailable
from hookgw.kernel.sentences import Sentence

logger = structlog.get_logger("hookgw.store")

REMEMBERED = 60.0
"""Seconds. A lane tries to read again every second, so a failure that lasts is not forgotten."""


class ReadFailures:
    """Remembers the last failed read, for :data:`REMEMBERED`."""

    def __init__(self) -> None:
        self._error: StorageUnavailable | None = None
        self._until = 0.0

    @contextmanager
    def noted(self, is_unreadable: Callable[[StorageUnavailable], bool]) -> Iterator[None]:
        """Remember an error of the block if it is of that kind. For the Trio thread."""
        try:
            yield
        except StorageUnavailable as error:
            if is_unreadable(error):
                if self._error is None:
                    logger.error("what is stored cannot be read, no events are accepted", reason=str(error))  # noqa: TRY400 -- the reason says enough
                self._error = StorageUnavailable(
                    *error.messages,
                    Sentence(
                        "storage.unreadable",
                        "What is stored cannot be read: no events are accepted meanwhile.",
                    ),
                )
                self._until = trio.current_time() + REMEMBERED
            raise

    def current(self) -> StorageUnavailable | None:
        """Return why no more is to be accepted; ``None`` if all could be read."""
        if self._error is not None and trio.current_time() >= self._until:
            self._error = None
            logger.info("no read has failed for a while, events are accepted again")
        return self._error
