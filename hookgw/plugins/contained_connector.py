"""A plugin's connector, called through the boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hookgw.models.connectors import Connector, Session
from hookgw.models.errors import Invalid, NetworkRefused
from hookgw.models.events import Event
from hookgw.plugins.boundary import Boundary, WrongResult, message_of
from hookgw.plugins.hook_implementation import HookImplementation


class ContainedConnector:
    """Satisfies :class:`~hookgw.models.connectors.Connector`, whatever the plugin's connector does.

    Args:
        connector: the plugin's.
        plugin: the plugin's name.
        boundary: contains the calls, and reports failures.

    Attributes:
        name, plugin: of the connector, and of its plugin.
    """

    def __init__(self, connector: Connector, plugin: str, boundary: Boundary) -> None:
        self.name = connector.name
        self.plugin = plugin
        self._boundary = boundary
        self._run = HookImplementation(plugin=plugin, hook="hookgw_connectors.run", call=connector.run)
        self._send = HookImplementation(
            plugin=plugin, hook="hookgw_connectors.send_text", call=connector.send_text
        )

    async def run(self, session: Session, may_return: Callable[[], bool] = lambda: True) -> None:
        """Run the connector.

        Args:
            session: of the instance.
            may_return: returns whether the connector may return now, which means a logout.

        Raises:
            PluginFailed: it raised, or returned when it must not.
        """

        def check(_result: object) -> None:
            if not may_return():
                raise WrongResult(
                    "run returned without a connection. Returning means that the account was logged out: "
                    "raise an exception for anything else, or report the state close before"
                )

        await self._boundary.run(self._run, session, check=check)

    async def send_text(self, session: Session, number: str, text: str) -> dict[str, Any]:
        """Send a text message.

        Returns:
            The message, which JSON can express.

        Raises:
            Invalid, NetworkRefused: as the connector raised it.
            PluginFailed: it raised something else, or returned something else.
        """
        try:
            message: dict[str, Any] = await self._boundary.run(
                self._send, session, number, text, check=_check_message, passes=(Invalid, NetworkRefused)
            )
        except Invalid as error:
            raise Invalid(message_of(error, self._boundary.masked)) from error
        except NetworkRefused as error:
            raise NetworkRefused(message_of(error, self._boundary.masked)) from error
        return message


def _check_message(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise WrongResult(
            f"it returned a value of type {type(message).__name__}; return the message as a dict"
        )
    Event.encode(message)
    return message
