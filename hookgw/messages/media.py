"""Inbound files, for readers with a link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from hookgw.auth.media_links import MediaLink, MediaLinks
from hookgw.auth.rate_limit import Pace, TokenBucket
from hookgw.core.registry import Registry
from hookgw.fair import Claim, Share
from hookgw.instances.connectors.media_download import MediaDownload
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, NotSupported, TooManyRequests, Unavailable
from hookgw.kernel.units import Size
from hookgw.records.inline_media import MEDIA_PATH
from hookgw.records.instances import Instance

MOST = 64
"""Downloads at a time."""
MOST_OF_INSTANCE = 16
"""Downloads of one instance's files at a time: a quarter, as of other requests. It never has more than are
free beside them."""
RATE = 50
"""Downloads of one instance's files per second, with bursts of twice as many: each asks the network."""


class MediaDownloads(Collaborator):
    """Opens links.

    Args:
        limit: the most bytes of a file (``media.limit``).
        on_limited: called with the name of the limit for each refused request.
    """

    _registry: Registry
    _connectors: Connectors
    _links: MediaLinks
    _limit: Size
    _now: Callable[[], float]
    _on_limited: Callable[[str], None]

    def __post_init__(self) -> None:
        # No instance has more than it leaves free, so that the next one finds some.
        self._downloads: Share[Claim] = Share(MOST, 1)
        self._buckets: WeakKeyDictionary[ConnectorSession, TokenBucket] = WeakKeyDictionary()

    def open(self, name: str, token: str) -> MediaDownload:
        """Start to download the file of a link; the caller must call ``leave`` of the download at the end.

        Raises:
            Forbidden: the link is not valid, or its instance does not exist.
            Expired: the link has expired.
            Unavailable: the instance is not connected, or too many downloads are in progress.
            NotSupported: the connector has no files.
            TooManyRequests: a limit of the instance is reached.
        """
        instance = self._registry.find_instance(name)
        link = self._links.open(instance, token)
        try:
            session = self._connectors.connected(self._registry.instance(name))
        except Conflict:
            raise Unavailable.of(
                "instance.not_connected_for_media",
                "The instance {name!r} is not connected. Retry later.",
                name=name,
            ) from None
        if "open_media" not in session.connector.methods:
            raise NotSupported.of(
                "media.not_supported", "The connector {name!r} has no files.", name=session.connector.name
            )
        return self._start(session, link)

    def reference_in(self, instance: Instance, message: Any) -> str | None:
        """Return the reference of the first link to a file of an instance in a message, also of an old link.

        Whoever asks has the key of the instance, which does not expire as a link does.
        """
        start = f"{MEDIA_PATH}{instance.name}/"
        for text in _texts_in(message):
            _, found, token = text.partition(start)
            if found and (link := self._links.read(instance, token)) is not None:
                return link.reference
        return None

    def open_stored(
        self, session: ConnectorSession, reference: str, described: dict[str, Any]
    ) -> MediaDownload:
        """Start to download the file of a stored message.

        Args:
            session: of the instance. Its connector has files.
            reference: the connector's name of the file.
            described: what the message says of the file.

        Raises:
            Unavailable: too many downloads are in progress.
            TooManyRequests: a limit of the instance is reached.
        """
        mimetype, file_name = described.get("mimetype"), described.get("fileName")
        link = MediaLink(
            expires_at=0,
            reference=reference,
            mimetype=mimetype if isinstance(mimetype, str) else "",
            file_name=file_name if isinstance(file_name, str) else "",
        )
        return self._start(session, link)

    def _start(self, session: ConnectorSession, link: MediaLink) -> MediaDownload:
        self._check_limits(session)
        name = session.instance
        download = MediaDownload(session, link, self._limit)

        async def run() -> None:
            try:
                await download.run()
            finally:
                self._downloads.give(name)
                session.calls.discard(download.scope)

        self._connectors.start_task(run, f"media of {name}")
        self._downloads.take(name)
        session.calls.add(download.scope)
        return download

    def _check_limits(self, session: ConnectorSession) -> None:
        downloads, name = self._downloads, session.instance
        if downloads.used >= MOST:
            self._on_limited("media")
            raise Unavailable.of(
                "media.too_many_downloads",
                "{most} files are being downloaded, the maximum. Retry later.",
                most=MOST,
                retry_after=1,
            )
        if (held := downloads.held(name)) >= MOST_OF_INSTANCE or not downloads.fits(name):
            self._on_limited("media")
            raise TooManyRequests.of(
                "media.too_many_of_instance",
                "{most} files of this instance are being downloaded, the maximum now. Retry later.",
                most=held,
                retry_after=1,
            )
        bucket = self._buckets.get(session)
        if bucket is None:
            # Not divided in a fleet: all requests for an instance's files go to the node that has it.
            bucket = self._buckets[session] = TokenBucket(Pace(RATE, self._now))
        wait = bucket.take()
        if wait:
            self._on_limited("media")
            raise TooManyRequests.of(
                "media.too_many_asked", "Too many files of this instance were asked for.", retry_after=wait
            )


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)
