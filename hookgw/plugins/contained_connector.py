"""A plugin's connector, called through the boundary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from hookgw.kernel.errors import (
    EventLeftOut,
    HookgwError,
    Invalid,
    NetworkRefused,
    NotFound,
    NotSupported,
    ProofRefused,
    TooLarge,
    Unavailable,
)
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.target_url import Origin
from hookgw.plugins.boundary import Boundary, WrongResult, sentence_from
from hookgw.plugins.connector_options import ConnectorOptions
from hookgw.plugins.hook_implementation import HookImplementation
from hookgw.plugins.provided import CheckedConnector
from hookgw.plugins.results import wrong_type
from hookgw.records.connectors import IngestRequest, IngestResponse, MediaSink, Session
from hookgw.records.events import Event
from hookgw.records.instances import InstanceSettings
from hookgw.records.messages import Message, MessageKey, MessageQuery

_REFUSALS = (Invalid, NetworkRefused, NotSupported)
_ERRORS = (*_REFUSALS, EventLeftOut, NotFound, ProofRefused, TooLarge, Unavailable)
_MOST_NUMBERS, _LONGEST_NUMBER = 100, 200
_LONGEST_CODE = 100
_LONGEST_WAIT = 86_400.0
_LEAST_STATUS, _MOST_STATUS = 200, 599

_T = TypeVar("_T")


class ContainedConnector:
    """Satisfies :class:`~hookgw.records.connectors.Connector`, whatever the plugin's connector does.

    The methods raise the errors of the connector's contract, ``NotSupported`` if the plugin's connector lacks
    the method, and ``PluginFailed`` for anything else.

    Args:
        connector: the plugin's, checked.
        listed, configured: see :class:`~hookgw.plugins.connector_options.ConnectorOptions`.

    Attributes:
        methods: the names of the methods that the plugin's connector has.
        options_schema: the JSON Schema of an instance's options; ``None`` if it takes any.
    """

    def __init__(
        self,
        connector: CheckedConnector,
        plugin: str,
        boundary: Boundary,
        *,
        listed: Callable[[], Collection[Origin]] = frozenset,
        configured: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.name = connector.name
        self.plugin = plugin
        self.methods = frozenset(connector.methods)
        self.message_types = connector.message_types
        self.options_schema = connector.options_schema
        self.option_rules = ConnectorOptions(
            connector.name, connector.options_schema, listed=listed, configured=configured
        )
        self._boundary = boundary
        self._calls = {
            method: HookImplementation(plugin=plugin, hook=f"hookgw_connectors.{method}", call=call)
            for method, call in connector.methods.items()
        }

    async def run(self, session: Session, may_return: Callable[[], bool] = lambda: True) -> None:
        """Run the connector.

        Raises:
            PluginFailed: it raised, or returned while ``may_return`` was false. A return means a logout.
        """

        def check(_result: object) -> None:
            if not may_return():
                raise WrongResult(
                    "run returned without a connection. Returning means that the account was logged out: "
                    "raise an exception for anything else, or report the state close before"
                )

        await self._boundary.run(self._calls["run"], session, check=check)

    async def send(self, session: Session, message: Message, *, key: str) -> dict[str, Any]:
        """Send a message. Return it as JSON can express it."""
        if type(message) not in self.message_types:
            raise NotSupported.of(
                "connector.no_message_kind",
                "The connector {name!r} does not send messages of this kind.",
                name=self.name,
            )
        return await self._call("send", session, message, check=_check_payload, key=key)

    async def ingest(self, session: Session, request: IngestRequest) -> IngestResponse:
        passes = (*_REFUSALS, ProofRefused, TooLarge, Unavailable)
        return await self._call("ingest", session, request, check=_check_response, passes=passes)

    async def mark_read(self, session: Session, keys: Sequence[MessageKey]) -> None:
        await self._call("mark_read", session, keys)

    async def set_presence(
        self, session: Session, presence: str, *, number: str | None, delay: float
    ) -> None:
        await self._call("set_presence", session, presence, number=number, delay=delay)

    async def edit(self, session: Session, key: MessageKey, text: str, *, number: str) -> dict[str, Any]:
        return await self._call("edit", session, key, text, check=_check_payload, number=number)

    async def delete(self, session: Session, key: MessageKey) -> dict[str, Any]:
        return await self._call("delete", session, key, check=_check_payload)

    async def settings(self, session: Session, settings: InstanceSettings) -> None:
        await self._call("settings", session, settings)

    async def restart(self, session: Session) -> None:
        await self._call("restart", session)

    async def check_options(self, options: dict[str, Any], *, public_url: str | None) -> None:
        given = _Options(self.option_rules.with_defaults(options), self.option_rules.secrets(options))
        await self._call("check_options", given, passes=(Invalid,), public_url=public_url)

    async def logout(self, session: Session) -> None:
        await self._call("logout", session)

    async def remove(self, session: Session) -> None:
        await self._call("remove", session)

    async def find_numbers(self, session: Session, numbers: Sequence[str]) -> list[dict[str, Any]]:
        return await self._call("find_numbers", session, numbers, check=_check_list)

    async def find_picture(self, session: Session, number: str) -> dict[str, Any]:
        return await self._call("find_picture", session, number, check=_check_payload)

    async def find_messages(self, session: Session, query: MessageQuery) -> dict[str, Any]:
        return await self._call("find_messages", session, query, check=_check_payload)

    async def list_groups(self, session: Session, *, with_participants: bool) -> list[dict[str, Any]]:
        return await self._call(
            "list_groups", session, check=_check_list, with_participants=with_participants
        )

    async def find_group(self, session: Session, group: str) -> dict[str, Any]:
        return await self._call(
            "find_group", session, group, check=_check_payload, passes=(*_REFUSALS, NotFound)
        )

    async def media_reference(self, session: Session, key: MessageKey) -> str | None:
        return await self._call("media_reference", session, key, check=_check_reference)

    async def open_media(self, session: Session, reference: str, sink: MediaSink) -> None:
        await self._call(
            "open_media", session, reference, sink, passes=(*_REFUSALS, NotFound, TooLarge, Unavailable)
        )

    async def _call(
        self,
        method: str,
        *arguments: Any,
        check: Callable[[Any], _T] = lambda answer: answer,
        passes: tuple[type[HookgwError], ...] = _REFUSALS,
        **named: Any,
    ) -> _T:
        call = self._calls.get(method)
        if call is None:
            raise NotSupported.of(
                "connector.no_such_call", "The connector {name!r} has no such call.", name=self.name
            )
        if named:
            call = HookImplementation(plugin=call.plugin, hook=call.hook, call=partial(call.call, **named))
        try:
            answer: _T = await self._boundary.run(call, *arguments, check=check, passes=passes)
        except passes as error:
            mask = partial(self._boundary.masked, arguments)
            raise _plain(error, sentence_from(error, mask), mask) from error
        return answer


class _Options(dict[str, Any]):
    """Options for a connector. The boundary masks their secrets in the connector's exceptions."""

    def __init__(self, options: dict[str, Any], secrets: set[str]) -> None:
        super().__init__(options)
        self._secrets = secrets

    def secret_texts(self) -> set[str]:
        return self._secrets


def _plain(error: HookgwError, message: Sentence, mask: Callable[[str], str]) -> HookgwError:
    """Return an error of hookgw's own class, with plain values: a plugin's subclass may do anything."""
    own = next(base for base in type(error).__mro__ if base in _ERRORS)
    values: dict[str, Any] = object.__getattribute__(error, "__dict__")  # not a property of the plugin's
    code, status, wait = values.get("code"), values.get("status"), values.get("retry_after")
    is_wait = wait is not None and type(wait) in (int, float) and 0 <= wait <= _LONGEST_WAIT
    retry_after = float(wait) if wait is not None and is_wait else None
    if own is NetworkRefused:
        return NetworkRefused(
            message,
            code=mask(code)[:_LONGEST_CODE] if type(code) is str else None,
            status=status if type(status) is HTTPStatus else HTTPStatus.BAD_GATEWAY,
            retry_after=retry_after,
            unknown_numbers=_plain_texts(values.get("unknown_numbers"), mask),
        )
    if own is Unavailable and retry_after is not None:
        return Unavailable(message, retry_after=retry_after)
    return own(message)


def _plain_texts(found: Any, mask: Callable[[str], str]) -> dict[str, str]:
    pairs = list(dict.items(found))[:_MOST_NUMBERS] if isinstance(found, dict) else []
    return {
        mask(name)[:_LONGEST_NUMBER]: mask(value)[:_LONGEST_NUMBER]
        for name, value in pairs
        if type(name) is type(value) is str
    }


def _check_payload(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise wrong_type(message, "the message as a dict")
    Event.encode(message)
    return message


def _check_reference(answer: Any) -> str | None:
    if answer is not None and type(answer) is not str:
        raise wrong_type(answer, "a text or None")
    return answer


def _check_list(answer: Any) -> list[dict[str, Any]]:
    if not isinstance(answer, list):
        raise wrong_type(answer, "a list of dicts")
    return [_check_payload(item) for item in answer]


def _check_response(answer: Any) -> IngestResponse:
    if not isinstance(answer, IngestResponse):
        raise wrong_type(answer, "an IngestResponse")
    if not isinstance(answer.body, bytes):  # msgspec would take a text for base64
        raise WrongResult(f"it returned a body of type {type(answer.body).__name__}; return bytes")
    plain = msgspec.convert(msgspec.structs.asdict(answer), IngestResponse)
    if not _LEAST_STATUS <= plain.status <= _MOST_STATUS:
        raise WrongResult(f"it returned the status {plain.status}; return one from 200 to 599")
    if plain.body and plain.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        raise WrongResult(f"it returned a body with the status {plain.status}, which has none")
    # It becomes a header: a line break in it would begin another one.
    if not (plain.content_type.isascii() and plain.content_type.isprintable()):
        raise WrongResult("it returned a content_type that is not printable ASCII")
    return plain
