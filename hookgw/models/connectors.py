"""What a connector is: plugin code that connects instances to a messaging network. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import httpx


class ConnectionState(StrEnum):
    """What an instance's connection is doing, in the words of the wire contract."""

    OPEN = "open"
    CONNECTING = "connecting"
    CLOSE = "close"


class QRCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code to be scanned with the account's phone.

    Attributes:
        code: the text in the code.
        base64: the picture, as a ``data:image/png;base64,…`` URL.
        pairing_code: what can be typed in its place.
    """

    code: str
    base64: str
    pairing_code: str | None = None


class Session(Protocol):
    """The gateway's side of one connected instance; the gateway makes it and hands it out."""

    @property
    def instance(self) -> str:
        """The instance's name."""

    @property
    def options(self) -> dict[str, Any]:
        """What the instance was created with."""

    @property
    def http(self) -> httpx.AsyncClient:
        """A client whose every connection passes the address guard. The gateway closes it."""

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        """Raise an event; returns once it is on disk.

        Raises:
            Invalid: the kind is unknown or the payload breaks the catalog's rules in strict mode.
            Unavailable: the disk refuses, or a backlog limit is reached; try again later.
        """

    async def show_qr_code(self, qr_code: QRCode) -> None:
        """Keep the code for ``/instance/connect`` and raise QRCODE_UPDATED."""

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        """Record the state and, where it changed, raise CONNECTION_UPDATE with ``more`` in its data.

        ``more`` may carry ``wuid`` (the account, which becomes the events' ``sender``) and
        ``profileName``.
        """


class Connector(Protocol):
    """Connects instances to one messaging network."""

    name: str
    """What ``integration`` says."""

    async def run(self, session: Session) -> None:
        """Connect, then produce events until cancelled or logged out.

        It runs in a task of its own that the gateway cancels on logout, deletion and shutdown, and
        starts again, after a wait that grows, where it raises. Returning means: logged out.
        """

    async def send_text(self, session: Session, number: str, text: str) -> dict[str, Any]:
        """Send a text message; called only while the state is ``open``.

        Returns:
            The message, as ``data`` of SEND_MESSAGE; the gateway raises that event.

        Raises:
            NetworkRefused: the network said no; its reason is the message.
            Invalid: the number or text cannot be sent.
        """
