"""The connector interface: plugin code that connects instances to a messaging network. No I/O."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    # Importing httpx takes about 100 ms; commands that only load models should not pay for an annotation.
    import httpx


class ConnectionState(StrEnum):
    """The state of an instance's connection, in the words of the HTTP API."""

    OPEN = "open"
    CONNECTING = "connecting"
    CLOSE = "close"


class QRCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code to scan with the account's phone.

    Attributes:
        code: the text in the code.
        base64: the picture, as a ``data:image/png;base64,…`` URL.
        pairing_code: a code to type instead of scanning.
    """

    code: str
    base64: str
    pairing_code: str | None = None


class Session(Protocol):
    """The gateway's side of one connected instance. The gateway creates it and passes it to the connector."""

    @property
    def instance(self) -> str:
        """The instance's name."""

    @property
    def options(self) -> dict[str, Any]:
        """The connector options that the instance was created with."""

    @property
    def http(self) -> httpx.AsyncClient:
        """An HTTP client that checks every connection with the address guard. The gateway closes it."""

    async def emit(self, kind: str, data: Any, *, event_id: str | None = None) -> None:
        """Store an event. Return once it is on disk.

        Raises:
            Invalid: the kind is unknown, or the payload violates its schema in strict mode.
            Unavailable: the disk refuses, or a backlog limit is reached; retry later.
        """

    async def show_qr_code(self, qr_code: QRCode) -> None:
        """Store the code for ``/instance/connect`` and emit QRCODE_UPDATED."""

    async def set_state(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        """Store the state. If it changed, emit CONNECTION_UPDATE with ``more`` in its data.

        ``more`` may contain ``wuid`` (the account, which becomes the events' ``sender``) and
        ``profileName``.
        """


class Connector(Protocol):
    """Connects instances to one messaging network."""

    name: str
    """The value of ``integration`` that selects this connector."""

    async def run(self, session: Session) -> None:
        """Connect, then emit events until cancelled or logged out.

        The gateway runs this in a task of its own and cancels it on logout, deletion and shutdown. If it
        raises, the gateway starts it again after a growing wait. Returning means that the account is logged
        out, if this run has reported ``open`` or ``close``. Otherwise it is a failure.
        """

    async def send_text(self, session: Session, number: str, text: str) -> dict[str, Any]:
        """Send a text message. The gateway calls this only while the state is ``open``.

        Returns:
            The message, as ``data`` of SEND_MESSAGE. The gateway emits that event.

        Raises:
            NetworkRefused: the network refused; its reason is the message.
            Invalid: the number or the text cannot be sent.
        """
