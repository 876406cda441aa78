"""The facts that only this process knows: its lanes, its connections, its figures, its problems.

In a fleet, every node is asked for them, and :mod:`hookgw.operations.views` puts the answers together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Protocol

import msgspec
import trio

from hookgw._version import __version__
from hookgw.concurrency.clock import Clock
from hookgw.core.audit import acting_as
from hookgw.core.registry import Registry
from hookgw.deliveries.service import DeliveryService
from hookgw.fleet.all_nodes import Answers, Question
from hookgw.instances.connectors.states import Account, Closing, ConnectionReport, ConnectionStates
from hookgw.instances.quiet import QuietWatch, Sign
from hookgw.instances.service import InstanceService
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, HookgwError
from hookgw.kernel.masking import repr_without
from hookgw.kernel.sentences import Sentence
from hookgw.lanes.dispatcher import Dispatcher
from hookgw.operations.activity import Activity
from hookgw.operations.problems import Problems
from hookgw.records.audit import Actor
from hookgw.records.connectors import ConnectionState
from hookgw.records.deliveries import LaneStatistics, ReportedLane
from hookgw.records.lane_lists import LaneFilter, first_lanes
from hookgw.records.messages import TextMessage
from hookgw.records.problems import Problem
from hookgw.webhooks.auto_disable import AutoDisable

_AT_ONCE = 200


class SendMessage(Protocol):
    def __call__(self, instance: str, message: TextMessage, /, *, key: str) -> Awaitable[object]:
        """Send a message through an instance. The key is the same for each repetition."""


class LanesAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which lanes to report.

    Attributes:
        most: how many at most, the most urgent first; ``None`` for all, in no order.
        among: only lanes of these instances' webhooks; ``None`` for all.
        filter: only those that it has.
        sort: the order of these, see :func:`first_lanes`.
    """

    most: int | None = None
    among: tuple[str, ...] | None = None
    filter: LaneFilter = LaneFilter()
    sort: str = ""


class LanesPart(msgspec.Struct, frozen=True):
    """The lanes of a node.

    Attributes:
        count: how many there are, whatever was asked for.
        now: the time of the node's steady clock.
    """

    lanes: list[ReportedLane]
    count: int
    now: float


class ConnectionsAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """The instances whose connections to report, or ``None`` for all, and whether ``failing`` is wanted."""

    names: list[str] | None = None
    counts_failing: bool = False


class InstanceConnection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's record of an instance's connection.

    Attributes:
        close_reason: why it is closed, in a sentence.
        closing: the last end of the connection.
        failing: how many of the instance's webhooks fail.
    """

    state: ConnectionState = ConnectionState.CLOSE
    close_reason: str | None = None
    account: Account = Account()
    closing: Closing | None = None
    failing: int = 0


NO_CONNECTION = InstanceConnection()
"""Of an instance without a connector, of which no event has reported anything."""


class ConnectionsPart(msgspec.Struct, frozen=True):
    """The connections of a node's instances.

    Attributes:
        connections: by instance; a missing instance has :data:`NO_CONNECTION`.
        shards: of the node: instances of other shards are not among these.
    """

    connections: dict[str, InstanceConnection]
    shards: list[int]


class CodesAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """The instances whose codes to report; ``None`` for all."""

    among: tuple[str, ...] | None = None


class WaitingCode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A code that an instance shows, and one to type instead. Who has one can connect an account."""

    instance: str
    code: str
    pairing_code: str | None = None

    __repr__ = repr_without("code", "pairing_code")


class CodesPart(msgspec.Struct, frozen=True):
    """The codes of a node's instances."""

    codes: list[WaitingCode]


class MatchingAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which instances to name: one of these.

    Attributes:
        states: with such a connection, none of them closed.
        digits: with these digits in the account's number.
        is_failing: with a webhook that fails.
    """

    states: list[ConnectionState] | None = None
    digits: str = ""
    is_failing: bool = False


class MatchingPart(msgspec.Struct, frozen=True):
    """The instances of a node that match, and its shards; see :class:`ConnectionsPart`."""

    names: list[str]
    shards: list[int]


class OverviewAsked(msgspec.Struct, frozen=True, omit_defaults=True):
    """The scope of the overview.

    Attributes:
        most: how many problems.
        counts_instances: whether ``held`` and ``open`` are wanted.
        among: only these instances; ``None`` for everything.
    """

    most: int = 20
    counts_instances: bool = False
    among: tuple[str, ...] | None = None


class OverviewPart(msgspec.Struct, frozen=True):
    """The overview of a node.

    Attributes:
        delivered: the deliveries of the last minute.
        system, webhooks, instances: its problems.
        started: in seconds since the epoch.
        held: how many instances it has.
        open: how many of them are connected.
        codes: how many of the instances in question show a code to scan.
    """

    delivered: int
    system: list[Problem]
    webhooks: list[Problem]
    instances: list[Problem]
    version: str
    started: float
    held: int = 0
    open: int = 0
    codes: int = 0


class ResendAsked(msgspec.Struct, frozen=True):
    """Deliveries to send again; the asking node has checked that the actor may do that.

    Attributes:
        deliveries: pairs of instance and id, in the order of sending.
        without_global: see :meth:`hookgw.deliveries.replay.Replays.resend`.
    """

    deliveries: list[tuple[str, str]]
    without_global: bool
    actor: Actor


class ResendPart(msgspec.Struct, frozen=True):
    """The refusals. A node passes over deliveries that it does not hold.

    Attributes:
        refused: pairs of the delivery's id and sentences.
        done: the ids of the deliveries that it holds, refused or not.
    """

    refused: list[tuple[str, list[str]]]
    done: list[str]


SentSentence = tuple[str, str, dict[str, Any]]
"""The id, the template and the values of a sentence."""


class CancelAsked(msgspec.Struct, frozen=True):
    """A delivery with its lane on another node than its instance; the asking node has checked the actor."""

    instance: str
    delivery: str
    actor: Actor


class CancelPart(msgspec.Struct, frozen=True):
    """Why a delivery was not cancelled, in sentences; none if it was.

    Attributes:
        is_settled: whether it is settled, so that there is nothing to retry.
    """

    refused: list[SentSentence] = []
    is_settled: bool = False


class ReportsAsked(msgspec.Struct, frozen=True):
    """Events' reports of connections, at a node that does not have these instances."""

    reports: list[ConnectionReport]


class ReportsPart(msgspec.Struct, frozen=True):
    """The names of a node's instances among them: it took these reports."""

    taken: list[str]


class SignsAsked(msgspec.Struct, frozen=True):
    """Signs of life of instances, at a node that does not have them."""

    signs: list[Sign]


class SignsPart(msgspec.Struct, frozen=True):
    """Nothing: a sign that is lost makes a count too low, and the next event is a sign, too."""


class SendAsked(msgspec.Struct, frozen=True):
    """A text message that a plugin sends through an instance.

    Attributes:
        number: where it goes, as the network names it.
        key: the same for each repetition.
    """

    instance: str
    number: str
    text: str
    key: str
    actor: Actor


class SendPart(msgspec.Struct, frozen=True):
    """Why the message was not sent, in sentences; none if it was. ``None`` if the node lacks the instance."""

    refused: list[SentSentence] | None = None


def _sent(sentences: Iterable[Sentence]) -> list[SentSentence]:
    return [(one.id, one.template, one.values) for one in sentences]


def received(sentences: Iterable[SentSentence]) -> list[Sentence]:
    """Return the sentences of another node."""
    return [Sentence(id_, template, **values) for id_, template, values in sentences]


LANES = Question("lanes", LanesAsked, LanesPart)
CONNECTIONS = Question("connections", ConnectionsAsked, ConnectionsPart)
CODES = Question("codes", CodesAsked, CodesPart)
MATCHING = Question("matching", MatchingAsked, MatchingPart)
OVERVIEW = Question("overview", OverviewAsked, OverviewPart)
RESEND = Question("resend", ResendAsked, ResendPart)
CANCEL = Question("cancel", CancelAsked, CancelPart)
REPORTS = Question("reports", ReportsAsked, ReportsPart)
SIGNS = Question("signs", SignsAsked, SignsPart)
SEND = Question("send", SendAsked, SendPart)


class NodeReports(Collaborator):
    """Answers for this node.

    Args:
        holds: returns whether this node has an instance, by its name.
    """

    _instances: InstanceService
    _registry: Registry
    _deliveries: DeliveryService
    _dispatcher: Dispatcher
    _auto_disable: AutoDisable
    _activity: Activity
    _problems: Problems
    _states: ConnectionStates
    _quiet: QuietWatch
    _send_message: SendMessage
    _clock: Clock
    _holds: Callable[[str], bool]
    _shards: Callable[[], Collection[int]]

    def __post_init__(self) -> None:
        self._started = self._clock.wall()

    def answers(self) -> Answers:
        """Return the function for each question."""
        return {
            LANES: self.lanes,
            CONNECTIONS: self.connections,
            CODES: self.codes,
            MATCHING: self.matching,
            OVERVIEW: self.overview,
            RESEND: self.resend,
            CANCEL: self.cancel,
            REPORTS: self.take_reports,
            SIGNS: self.take_signs,
            SEND: self.send,
        }

    async def lanes(self, asked: LanesAsked) -> LanesPart:
        """Report the lanes that have work, or had some recently."""
        found: list[ReportedLane] = []
        has, skips_idle = asked.filter.has, asked.filter.skips_idle
        if asked.among is not None:
            for number, name in enumerate(asked.among):
                if number % _AT_ONCE == _AT_ONCE - 1:
                    await trio.lowlevel.checkpoint()
                for registration in self._registry.of_instance(name):
                    lanes = self._dispatcher.each_lane(registration.id, skips_idle=skips_idle)
                    found += filter(has, map(self._reported, lanes))
        else:
            for number, lane in enumerate(self._dispatcher.each_lane(skips_idle=skips_idle)):
                if number % _AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()  # ten thousand take longer than others should wait
                reported = self._reported(lane)
                if has(reported):
                    found.append(reported)
        count = len(found)
        if asked.most is not None:
            found = first_lanes(found, asked.sort, asked.most)
            await trio.lowlevel.checkpoint()
        return LanesPart(found, count, self._clock.steady())

    def _reported(self, lane: LaneStatistics) -> ReportedLane:
        registration = self._registry.registration(lane.registration)
        if registration is None:
            return ReportedLane(lane, None, None)
        return ReportedLane(lane, registration.instance, registration.label)

    async def connections(self, asked: ConnectionsAsked) -> ConnectionsPart:
        names = [one.name for one in self._instances.all()] if asked.names is None else asked.names
        found = {}
        for number, name in enumerate(names):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            if not self._holds(name) or self._instances.find(name) is None:
                continue
            connection = self._connection(name, counts_failing=asked.counts_failing)
            if connection != NO_CONNECTION:
                found[name] = connection
        return ConnectionsPart(found, sorted(self._shards()))

    async def matching(self, asked: MatchingAsked) -> MatchingPart:
        """Name the instances that match, without a look at each: a page filters ten thousand."""
        if asked.states is not None:
            found = {name for name, one in self._states.not_closed().items() if one in asked.states}
        elif asked.digits:
            found = {*self._states.with_number(asked.digits)}
        else:
            found = {one.instance for one, _ in self._auto_disable.failing()}
            found.update(one.instance for one in self._registry.registrations() if one.disabled_reason)
        return MatchingPart([*filter(self._holds, found)], sorted(self._shards()))

    def _connection(self, name: str, *, counts_failing: bool) -> InstanceConnection:
        instances, failing, failing_since = self._instances, 0, self._auto_disable.failing_since
        if counts_failing:
            of_instance = self._registry.of_instance(name)
            # A webhook that hookgw has disabled loses events: it fails, too.
            failing = sum(
                bool(failing_since(one.id) is not None or one.disabled_reason) for one in of_instance
            )
        return InstanceConnection(
            instances.connection_state(name),
            instances.close_reason(name),
            instances.account(name),
            instances.closing(name),
            failing,
        )

    async def codes(self, asked: CodesAsked) -> CodesPart:
        found = self._instances.codes(asked.among)
        return CodesPart([WaitingCode(name, one.code, one.pairing_code) for name, one in found])

    async def overview(self, asked: OverviewAsked) -> OverviewPart:
        held, is_open = 0, 0
        for number, one in enumerate(self._instances.all() if asked.counts_instances else ()):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            if self._holds(one.name):
                held += 1
                is_open += self._instances.connection_state(one.name) is ConnectionState.OPEN
        return OverviewPart(
            delivered=self._activity.last_minute(),
            system=self._problems.of_system() if asked.among is None else [],
            webhooks=self._problems.of_webhooks(asked.among, asked.most),
            instances=await self._problems.of_instances(asked.among, asked.most),
            version=__version__,
            started=self._started,
            held=held,
            open=is_open,
            codes=len(self._instances.codes(asked.among)),
        )

    async def resend(self, asked: ResendAsked) -> ResendPart:
        part = ResendPart([], [])
        with acting_as(asked.actor):
            for instance, name in asked.deliveries:
                if not self._holds(instance):
                    continue
                part.done.append(name)
                try:
                    await self._deliveries.resend(instance, name, without_global=asked.without_global)
                except HookgwError as error:
                    part.refused.append((name, [*map(str, error.messages)]))
        return part

    async def cancel(self, asked: CancelAsked) -> CancelPart:
        with acting_as(asked.actor):
            try:
                await self._deliveries.cancel_one(asked.instance, asked.delivery)
            except HookgwError as error:
                return CancelPart(_sent(error.messages), is_settled=isinstance(error, Conflict))
        return CancelPart()

    async def send(self, asked: SendAsked) -> SendPart:
        if not self._holds(asked.instance):
            return SendPart()
        message = TextMessage(number=asked.number, text=asked.text)
        with acting_as(asked.actor):
            try:
                await self._send_message(asked.instance, message, key=asked.key)
            except HookgwError as error:
                return SendPart(_sent(error.messages))
        return SendPart([])

    async def take_reports(self, asked: ReportsAsked) -> ReportsPart:
        taken = []
        for report in asked.reports:
            if self._holds(report.instance):
                taken.append(report.instance)
                if self._instances.find(report.instance) is not None:
                    self._states.apply(report)
        return ReportsPart(taken)

    async def take_signs(self, asked: SignsAsked) -> SignsPart:
        for sign in asked.signs:
            if self._holds(sign.instance):
                self._quiet.heard(sign.instance, sign.events)  # at this node's time
        return SignsPart()
