"""One instance's connection: the webhook in Evolution API, and the state of the account there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog
import trio

from hookgw import ConnectionState, InstanceSettings, NetworkRefused, NewEvent, QRCode, Session
from hookgw.connectors import found_at, mapping, save_state, text, texts

from .client import Client, Refused
from .events import STATES, Report, plain
from .options import Options
from .state import State, Target, target_of
from .webhook import former_webhook, is_ours, is_set, no_webhook, wanted_webhook

CHECK_INTERVAL = 30.0
"""Seconds between two looks at the webhook; with a slow answer, at least one a minute."""
CHECK_TIMEOUT = 10.0
"""Seconds for each request of a look: one at the webhook, and one at the state."""
_CONNECT_TIMEOUT = 20.0
"""Evolution API waits a few seconds for a code before it answers."""
_LOOK_AT_URL = 5.0
_BAD_REQUEST, _SERVER_ERROR = 400, 500
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 300.0
_RELEASED_FOR = 60.0
"""Seconds for which a webhook that was given back stays so: the instance is being deleted."""
_LATE = timedelta(minutes=30)
"""How long Evolution API repeats a request at most. Its clock may jump, as it tells the local time."""

_NOT_MORE = frozenset({"instance", "state", "statusReason", "reason", "self"})
_NOT_CONNECTED = "The account is not connected in Evolution API: call /instance/connect, and scan the code."

Missed = Callable[[float, float], AsyncGenerator[Sequence[NewEvent], None]]

logger = structlog.get_logger("hookgw.evolution")


class Connection:
    """What a run of an instance shares with its calls.

    Attributes:
        state: what earlier runs have kept.
        options, client: of the instance; ``None`` if its options are wrong.
        reported: the state of the connection, as it was reported last.
        closed: set once the connection was reported as closed.
    """

    def __init__(self, session: Session, state: State) -> None:
        self.session = session
        self.state = state
        self.options: Options | None = None
        self.client: Client | None = None
        self.reported: ConnectionState | None = None
        self.closed = trio.Event()
        self._reports = 0
        self._newest: datetime | None = None
        self._code = ""
        self._all_events = False
        self._released_until = float("-inf")
        self._has_asked = False
        self._reporting = trio.Lock()
        self._setting = trio.Lock()

    async def run(self, options: Options, missed: Missed) -> None:
        """Keep the webhook set, and the state known, until cancelled.

        Args:
            options: of the instance.
            missed: yields what came while hookgw and Evolution API were apart.
        """
        self.options = options
        self.client = client = Client(self.session, options)
        failures = 0
        self.session.lost_touch()
        while True:
            try:
                await self._check(options, client, missed)
            except NetworkRefused as error:
                failures += 1
                self.session.lost_touch()
                # One failure of an open connection may be a moment's: it is tried again soon.
                is_final = isinstance(error, Refused) and error.remote_status < _SERVER_ERROR
                if self.reported is not ConnectionState.OPEN or failures > 1 or is_final:
                    await self.report(ConnectionState.CLOSE, _reason_of(error), message=str(error))
                wait = min(_FIRST_WAIT * 2 ** min(failures - 1, 10), CHECK_INTERVAL)
                await trio.sleep(max(wait, min(error.retry_after or 0, _LONGEST_WAIT)))
            else:
                failures = 0
                await self._wait(CHECK_INTERVAL)

    async def report(self, state: ConnectionState, reason: int = 200, **more: Any) -> None:
        """Report a state; a change raises CONNECTION_UPDATE."""
        async with self._reporting:
            await self.session.set_state(state, reason, **more)
            self.reported = state
            if state is not ConnectionState.CONNECTING:
                self._code = ""
            if state is ConnectionState.CLOSE:
                self.closed.set()

    async def take_connection_update(self, report: Report) -> bool:
        """Take the state from a CONNECTION_UPDATE of Evolution API. Return whether it has one."""
        data = report.data
        state = STATES.get(text(mapping(data).get("state")))
        if state is None:
            return False
        if self._is_late(report):
            logger.info("late connection state left out", instance=self.session.instance, state=state)
            return True
        self._reports += 1
        reason = data.get("statusReason")
        more: dict[str, Any] = {}
        with suppress(RecursionError):  # the state counts, whatever is beside it
            # `set_state` has some of the names itself.
            more = {name: value for name, value in plain(data).items() if name not in _NOT_MORE}
        reason = reason if type(reason) is int and 0 <= reason < 1000 else 200
        await self.report(ConnectionState(state), reason, **more)
        if state == "close" and "message" not in more:
            # The event had the data as it came; this raises none, and says why in a sentence.
            await self.report(ConnectionState.CLOSE, reason, message=_NOT_CONNECTED)
        return True

    async def take_code(self, report: Report) -> bool:
        """Take the code from a QRCODE_UPDATED of Evolution API. Return whether it has one."""
        code = mapping(found_at(report.data, "qrcode"))
        if not isinstance(code.get("code"), str):
            return False
        if not self._is_late(report):
            await self._show(code)
        return True

    async def release(self) -> None:
        """Give the webhook back to the receiver that had it before hookgw.

        Raises:
            NetworkRefused: Evolution API does not answer, or refuses.
        """
        self._released_until = trio.current_time() + _RELEASED_FOR
        target = self.state.target
        if target is not None:
            async with self._setting:
                await self._give_back(target)

    async def forward_settings(self, settings: InstanceSettings) -> None:
        """Forward the settings of the account.

        Raises:
            NetworkRefused: Evolution API does not answer, or refuses.
        """
        values = msgspec.to_builtins(settings)
        if self.client is not None:
            await self.client.call("POST", "settings/set", values, seconds=CHECK_TIMEOUT)
            self.state.settings = values
            await save_state(self.session, self.state)

    async def _check(self, options: Options, client: Client, missed: Missed) -> None:
        target = target_of(options)
        async with self._setting:
            if self.state.target is not None and (
                not options.set_webhook
                or (self.state.target.base_url, self.state.target.remote) != (target.base_url, target.remote)
            ):
                try:
                    await self._give_back(self.state.target)
                except NetworkRefused as error:
                    if not options.set_webhook:
                        raise
                    # The server may have moved. What it was set to before stays known.
                    logger.warning(
                        "former webhook not given back", instance=self.session.instance, reason=str(error)
                    )
            if options.set_webhook and trio.current_time() >= self._released_until:
                await self._keep_set(options, client, target)
        # Also while the account is closed: Evolution API knows what it has received, and reports its codes.
        await self.session.catch_up(missed)
        await self._look_at_state(client, self.session.pairing_number or options.number)
        await self._forward_changed_settings()

    async def _keep_set(self, options: Options, client: Client, target: Target) -> None:
        wanted = wanted_webhook(
            self.session.ingest_url or "", self.state.secret, events=options.remote_events
        )
        found = await client.call("GET", "webhook/find", seconds=CHECK_TIMEOUT)
        nested = found_at(found, "webhook")
        found = nested if isinstance(nested, dict) else found if isinstance(found, dict) else None
        if self.state.target == target and is_set(found, wanted, all_events=self._all_events):
            return
        if found is not None and not self._is_own(found):
            self.state.former = former_webhook(found)
        if self.state.target is not None:
            logger.warning("webhook set again", instance=self.session.instance, remote=options.remote)
        # Before it is set: the first event may come at once, and a kill must not forget what was there.
        self.state.target = target
        await save_state(self.session, self.state)
        try:
            await client.call("POST", "webhook/set", {"webhook": wanted}, seconds=CHECK_TIMEOUT)
            self._all_events = False
        except Refused as error:
            if error.remote_status != _BAD_REQUEST:
                raise
            # A server of another version refuses all for one name. It takes an empty list for all it knows.
            wanted = {**wanted, "events": []}
            await client.call("POST", "webhook/set", {"webhook": wanted}, seconds=CHECK_TIMEOUT)
            self._all_events = True

    async def _give_back(self, target: Target) -> None:
        options = Options(base_url=target.base_url, api_key=target.api_key, remote=target.remote)
        client = Client(self.session, options)
        found = await client.call("GET", "webhook/find", seconds=CHECK_TIMEOUT)
        # If somebody has changed it since, it stays as it is.
        if isinstance(found, dict) and self._is_own(found):
            webhook = self.state.former or no_webhook(self.session.ingest_url or "")
            await client.call("POST", "webhook/set", {"webhook": webhook}, seconds=CHECK_TIMEOUT)
            logger.info("webhook given back", instance=self.session.instance, remote=target.remote)
        self.state.target = self.state.former = None
        await save_state(self.session, self.state)

    def _is_own(self, found: dict[str, Any]) -> bool:
        # Also with a former token, after the ingestUrl was rotated.
        own = (self.session.ingest_url or "").rpartition("/")[0] + "/"
        return is_ours(found, self.session.ingest_url or "") or text(found.get("url")).startswith(own)

    async def _look_at_state(self, client: Client, number: str) -> None:
        reports = self._reports
        answer = await client.call("GET", "instance/connectionState", seconds=CHECK_TIMEOUT)
        state = STATES.get(text(found_at(answer, "instance", "state")))
        if reports != self._reports:
            return  # a webhook brought a newer state meanwhile
        if state == "open":
            self._has_asked = True  # an account that is logged out later waits for the next connect
            more: dict[str, Any] = {}
            if self.reported is not ConnectionState.OPEN:
                with suppress(NetworkRefused):  # not every token may ask for it
                    more = _account_of(await client.account())
                if reports != self._reports:
                    return
            await self.report(ConnectionState.OPEN, **more)
            return
        if not self._has_asked:
            # Somebody called connect: without a login, there is a code.
            self._has_asked = True
            query = f"?number={number}" if number else ""
            answer = await client.call("GET", "instance/connect", query=query, seconds=_CONNECT_TIMEOUT)
            answer = mapping(found_at(answer, "qrcode")) or mapping(answer)
            if text(answer.get("code")):
                await self.report(ConnectionState.CONNECTING)
                await self._show(answer)
            return
        if state == "connecting":
            await self.report(ConnectionState.CONNECTING)
        elif state == "close":
            await self.report(ConnectionState.CLOSE, 401, message=_NOT_CONNECTED)
        else:
            message = f"Evolution API does not say in which state its instance {client.remote!r} is."
            await self.report(ConnectionState.CLOSE, 428, message=message)

    async def _show(self, code: dict[str, Any]) -> None:
        # The answer to connect and a webhook bring the same code at the same time.
        async with self._reporting:
            if code["code"] == self._code:
                return
            await self.session.show_qr_code(
                QRCode(
                    code=code["code"],
                    base64=text(code.get("base64")),
                    pairing_code=text(code.get("pairingCode")) or None,
                )
            )
            self._code = code["code"]

    async def _forward_changed_settings(self) -> None:
        settings = self.session.settings
        known = self.state.settings
        if msgspec.to_builtins(settings) == (known or msgspec.to_builtins(InstanceSettings())):
            return
        try:
            await self.forward_settings(settings)
        except Refused as error:
            logger.warning("settings refused", instance=self.session.instance, reason=str(error))

    def _is_late(self, report: Report) -> bool:
        try:
            at = datetime.fromisoformat(report.date_time)
            at = at.replace(tzinfo=None)
        except ValueError:
            return False
        newest = self._newest
        if newest is not None and timedelta(0) < newest - at <= _LATE:
            return True
        self._newest = at
        return False

    async def _wait(self, seconds: float) -> None:
        """Wait; less if the ``ingestUrl`` has another token meanwhile, with which nothing would arrive."""
        url = self.session.ingest_url
        with trio.move_on_after(seconds):
            while self.session.ingest_url == url:  # noqa: ASYNC110 (nothing announces it)
                await trio.sleep(_LOOK_AT_URL)


def _account_of(found: dict[str, Any]) -> dict[str, Any]:
    names = {"wuid": "ownerJid", "profileName": "profileName", "profilePictureUrl": "profilePicUrl"}
    return texts({name: found.get(source) for name, source in names.items()})


def _reason_of(error: Exception) -> int:
    """Return a ``statusReason``: not 401, after which receivers want a new login of the account."""
    if not isinstance(error, Refused):
        return 503
    return 403 if error.remote_status in (401, 403) else error.remote_status
