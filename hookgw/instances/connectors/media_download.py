"""Passes one inbound file from a connector to a reader."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import structlog
import trio

from hookgw.auth.media_links import MediaLink, is_mimetype
from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.errors import (
    HookgwError,
    Invalid,
    NetworkRefused,
    NotFound,
    PluginFailed,
    TooLarge,
    Unavailable,
)
from hookgw.kernel.units import Size

logger = structlog.get_logger("hookgw.connector")

HEAD_TIMEOUT = 30.0
"""Seconds that a connector may take to begin."""
GRACE = 60.0
"""Seconds from the beginning in which the speed does not matter."""
SLOWEST = 32 * 2**10
"""Bytes per second, on average, below which a download ends: no reader may hold its place for hours."""
PIECE = 64 * 2**10
"""Bytes that are passed on at a time, so that a connector's large chunk is not copied as a whole."""

_UNKNOWN_TYPE = "application/octet-stream"


class MediaHead(msgspec.Struct, frozen=True):
    """The properties of a file before its content: ``mimetype`` is never empty, ``file_name`` may be."""

    mimetype: str
    size: int | None
    file_name: str


class MediaDownload:
    """Satisfies :class:`~hookgw.records.connectors.MediaSink` for the connector.

    :meth:`run` is a task of the gateway. The reader waits for :meth:`head`, iterates over :meth:`chunks`, and
    always calls :meth:`leave` at the end.

    Args:
        limit: the most bytes of a file (``media.limit``).

    Attributes:
        scope: the connector's call runs in it; cancel it to break the download off.
    """

    def __init__(self, session: ConnectorSession, link: MediaLink, limit: Size) -> None:
        self.scope = trio.CancelScope()
        self._session = session
        self._link = link
        self._limit = limit
        # No buffer: the connector waits for the reader, so a download holds one piece of the file.
        self._writer, self._reader = trio.open_memory_channel[bytes](0)
        self._head: MediaHead | None = None
        self._head_or_end = trio.Event()
        self._began_at = 0.0
        self._written = 0
        self._has_reader = True
        self._error: HookgwError | None = None

    # For the gateway.

    async def run(self) -> None:
        """Let the connector send the file. The outcome, also a failure, is for the reader."""
        # For an unexplained end: hookgw, or the instance, stopped meanwhile.
        outcome: HookgwError | None = Unavailable.of(
            "media.disconnected", "The instance was disconnected during the download."
        )
        self.scope.deadline = trio.current_time() + HEAD_TIMEOUT
        try:
            with self.scope, self._writer:
                try:
                    await self._session.connector.open_media(self._session, self._link.reference, self)
                    outcome = self._missing()
                except HookgwError as error:
                    outcome = _for_reader(error)
            if self.scope.cancelled_caught and trio.current_time() >= self.scope.deadline:
                outcome = self._too_slow()
        finally:
            # A refusal of write comes first: a connector may have hidden it.
            self._error = self._error or outcome
            self._head_or_end.set()
        if self._error is not None and self._head is not None and self._has_reader:
            logger.warning("media download cut off", instance=self._session.instance, reason=str(self._error))

    def _missing(self) -> HookgwError | None:
        if self._head is None:
            return NetworkRefused.of("media.no_file", "The connector ended without the file.")
        if self._head.size not in (None, self._written):
            return NetworkRefused.of("media.ended_early", "The connector ended before the file did.")
        return None

    def _too_slow(self) -> HookgwError:
        if self._head is None:
            return NetworkRefused.of(
                "media.nothing_sent",
                "The network sent nothing of the file within {seconds:g} s.",
                seconds=HEAD_TIMEOUT,
            )
        return NetworkRefused.of(
            "media.too_slow",
            "The file was sent or read at less than {rate} per second.",
            rate=Size(SLOWEST),
        )

    # For the connector.

    async def begin(self, *, mimetype: str, size: int | None = None, file_name: str = "") -> None:
        if self._head is not None:
            raise RuntimeError("begin was called before; call it once, then write")
        if size is not None and (type(size) is not int or size < 0):
            raise ValueError("size must be a number of bytes, or None")
        if size is not None and size > self._limit:
            self._error = TooLarge.of(
                "media.exceeds_limit",
                "The file has {size:,} bytes; the limit is {limit} (media.limit).",
                size=size,
                limit=self._limit,
            )
        self._check()
        found = mimetype or self._link.mimetype
        self._head = MediaHead(
            mimetype=found if is_mimetype(found) else _UNKNOWN_TYPE,
            size=size,
            file_name=str(file_name or self._link.file_name),
        )
        self._began_at = trio.current_time()
        self._extend_deadline()
        self._head_or_end.set()
        await trio.lowlevel.checkpoint()

    async def write(self, chunk: bytes) -> None:
        if self._head is None:
            raise RuntimeError("call begin before write")
        rest = memoryview(chunk).cast("B")
        while rest:
            piece, rest = bytes(rest[:PIECE]), rest[PIECE:]
            self._written += len(piece)
            if self._written > self._limit:
                self._error = TooLarge.of(
                    "media.exceeds_limit_unannounced",
                    "The file exceeds {limit} (media.limit).",
                    limit=self._limit,
                )
            elif self._head.size is not None and self._written > self._head.size:
                self._error = TooLarge.of(
                    "media.longer_than_announced",
                    "The file exceeds the {size:,} bytes that were announced.",
                    size=self._head.size,
                )
            self._check()
            await self._writer.send(piece)
            self._extend_deadline()

    def _check(self) -> None:
        if self._error is not None:  # also if the connector has caught it before
            raise self._error

    def _extend_deadline(self) -> None:
        self.scope.deadline = self._began_at + GRACE + self._written / SLOWEST

    # For the reader.

    async def head(self) -> MediaHead:
        """Wait until the connector begins.

        Raises:
            NotFound: the network no longer has the file.
            NetworkRefused: the network refused or did not answer, or the connector failed.
            NotSupported: the network has no files.
            TooLarge: the file exceeds the limit.
            Unavailable: the connector is not ready, or was disconnected meanwhile.
        """
        await self._head_or_end.wait()
        self._check()
        assert self._head is not None  # noqa: S101 -- without a head, there is an error
        return self._head

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the content; raise ``HookgwError`` if the file is not complete."""
        async for piece in self._reader:
            yield piece
        self._check()

    def leave(self) -> None:
        """End the connector's call: the reader needs no more of the file."""
        self._has_reader = False
        self.scope.cancel()
        self._reader.close()


def _for_reader(error: HookgwError) -> HookgwError:
    if isinstance(error, PluginFailed):  # logged where it happened; readers have no key, and get no details
        return NetworkRefused.of("media.connector_failed", "The connector failed; hookgw's log says why.")
    if isinstance(error, Invalid):
        return NotFound(*error.messages)  # the reader cannot correct the reference
    return error
