"""The lists and pages of all nodes: asks every node, and puts the answers together.

Without a fleet there is one answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, NoReturn

import msgspec
import trio

from hookgw.concurrency.clock import Clock
from hookgw.core.audit import current_actor
from hookgw.deliveries.history import DeliveryHistory
from hookgw.deliveries.service import DeliveryService
from hookgw.fleet.all_nodes import AllNodes
from hookgw.instances.connectors.states import ConnectionStates
from hookgw.instances.quiet import QuietWatch
from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import Conflict, LaneElsewhere, NotFound, Unavailable
from hookgw.operations.node_reports import (
    CANCEL,
    CODES,
    CONNECTIONS,
    LANES,
    MATCHING,
    NO_CONNECTION,
    OVERVIEW,
    REPORTS,
    RESEND,
    SEND,
    SIGNS,
    CancelAsked,
    CodesAsked,
    ConnectionsAsked,
    InstanceConnection,
    LanesAsked,
    LanesPart,
    MatchingAsked,
    OverviewAsked,
    OverviewPart,
    ReportsAsked,
    ResendAsked,
    SendAsked,
    SendPart,
    SignsAsked,
    WaitingCode,
    received,
)
from hookgw.operations.repairs import REPAIR, Mutes, RepairAsked, RepairPart
from hookgw.records.connectors import ConnectionState
from hookgw.records.deliveries import ReportedLane
from hookgw.records.instances import Instance
from hookgw.records.lane_lists import ALL_LANES, LaneFilter, first_lanes
from hookgw.records.problems import Problem, ProblemGroup, ProblemReport, Repair, group_problems
from hookgw.records.shards import SHARDS, shard_of
from hookgw.store import DeliverySummary

CLOCKS_APART = 5.0
"""Seconds by which the clocks of two nodes differ before one node's times are corrected. It is more than an
answer takes: the times on a page must not change each time it is rendered."""

RETRY_AFTER = 1.0
"""Seconds after which a node gets reports again that it has not taken."""

PASS_ON_EVERY = 1.0
"""Seconds between two reports of the events that came in for other nodes."""

RESEND_WITHIN = 30.0
"""Seconds that sending a page of deliveries again may take."""

SEND_WITHIN = 60.0
"""Seconds that sending a message may take: longer than a network has."""

MOST_GROUPED = 2_000
"""The most problems that are grouped."""

MOST_REPORTED = 10_000
"""The most problems in a report for plugins."""


class Lanes(NamedTuple):
    """The lanes of all nodes.

    Attributes:
        lanes: with the name of their node, which is empty without a fleet. Their times are of this node's
            steady clock.
        total: how many there are, whatever was asked for.
        silent: the nodes that did not answer.
    """

    lanes: list[tuple[str, ReportedLane]]
    total: int
    silent: list[str]


class InstanceConnections(Collaborator):
    """The connections of instances.

    Args:
        found: by instance; a missing one has :data:`~hookgw.operations.node_reports.NO_CONNECTION`.
        shards: of the nodes that have answered.
        silent: the nodes that did not answer.
    """

    _found: dict[str, InstanceConnection]
    _shards: Collection[int]
    silent: list[str]

    def of(self, instance: Instance) -> InstanceConnection:
        """Return the connection of an instance.

        The state is unknown if the instance's node has not answered, or while the instance moves to another
        node. An instance that should be connected is then shown as ``connecting``: its next node connects it.
        """
        found = self._found.get(instance.name)
        if found is not None:
            return found
        if shard_of(instance.name) in self._shards:
            return NO_CONNECTION
        if instance.connected:
            return InstanceConnection(ConnectionState.CONNECTING)
        return InstanceConnection(close_reason="Its node does not answer, or it moves to another node.")


class WaitingCodes(NamedTuple):
    """The codes that wait to be scanned, by the names of their instances; and the silent nodes."""

    codes: list[WaitingCode]
    silent: list[str]


class NodeState(NamedTuple):
    """A node, in the list of nodes.

    Attributes:
        shards: how many it holds.
        heartbeat_age: in seconds.
        is_leaving: whether it takes no shards: it stops, or starts.
        is_here: whether it renders this.
        part: its answer; ``None`` if it did not answer.
    """

    name: str
    shards: int
    heartbeat_age: float
    is_leaving: bool
    is_here: bool
    part: OverviewPart | None


class Overview(NamedTuple):
    """The overview of all nodes.

    Attributes:
        problems: those of nodes first, with the name of the node in a fleet.
        nodes: none without a fleet.
        silent: the nodes that did not answer.
        refusing: the silent nodes that refused to answer: a clock may be wrong.
        codes: how many accounts show a code to scan.
    """

    problems: list[Problem]
    nodes: list[NodeState]
    silent: list[str]
    refusing: list[str]
    codes: int = 0


class Views(Collaborator):
    """The lists and pages that concern all nodes."""

    nodes: AllNodes
    _deliveries: DeliveryService
    _history: DeliveryHistory
    mutes: Mutes
    _clock: Clock

    async def lanes(
        self,
        *,
        among: tuple[str, ...] | None = None,
        most: int | None = None,
        only: LaneFilter = ALL_LANES,
        sort: str = "",
    ) -> Lanes:
        """Return the lanes that have work, or had some recently.

        Args:
            among: only lanes of these instances' webhooks; ``None`` for all.
            most: how many at most, the first ones by ``sort``; ``None`` for all, by node.
            only: which of them.
            sort: see :func:`first_lanes`; by default, the most urgent come first.
        """
        gathered = await self.nodes.ask(LANES, LanesAsked(most, among, only, sort), instances=among)
        now = self._clock.steady()
        found = [(name, lane) for name, part in gathered.parts.items() for lane in _in_time(part, now)]
        if most is not None:
            of_node = {id(lane): name for name, lane in found}
            lanes = first_lanes([lane for _, lane in found], sort, most)
            found = [(of_node[id(lane)], lane) for lane in lanes]
        return Lanes(found, sum(part.count for part in gathered.parts.values()), gathered.silent)

    async def connections(
        self, names: list[str] | None = None, *, counts_failing: bool = False
    ) -> InstanceConnections:
        """Return the connections of instances, ``None`` for all, perhaps with the failing webhooks."""
        asked = ConnectionsAsked(names, counts_failing)
        gathered = await self.nodes.ask(CONNECTIONS, asked, instances=names)
        parts = gathered.parts.values()
        found: dict[str, InstanceConnection] = {}
        for part in parts:
            found |= part.connections
        return InstanceConnections(found, {shard for part in parts for shard in part.shards}, gathered.silent)

    async def codes(self, among: tuple[str, ...] | None) -> WaitingCodes:
        """Return the codes of instances, ``None`` for all, that wait to be scanned."""
        gathered = await self.nodes.ask(CODES, CodesAsked(among), instances=among)
        found = [one for part in gathered.parts.values() for one in part.codes]
        return WaitingCodes(sorted(found, key=lambda one: one.instance), gathered.silent)

    async def matching(
        self,
        instances: Sequence[Instance],
        *,
        state: ConnectionState | None = None,
        digits: str = "",
        is_failing: bool = False,
    ) -> list[Instance]:
        """Return those of some instances that match one thing, in their order.

        Args:
            state: of the connection, as :class:`InstanceConnections` has it.
            digits: a part of the account's number.
            is_failing: whether a webhook of it must fail.
        """
        # Closed connections are most of them, or none: nodes name all others.
        states = None if state is None else [state]
        if state is ConnectionState.CLOSE:
            states = [ConnectionState.OPEN, ConnectionState.CONNECTING]
        gathered = await self.nodes.ask(MATCHING, MatchingAsked(states, digits, is_failing))
        names = {name for part in gathered.parts.values() for name in part.names}
        if state is None or state is ConnectionState.OPEN:
            return [one for one in instances if one.name in names]
        known = {shard for part in gathered.parts.values() for shard in part.shards}
        if len(known) < SHARDS:
            # On a silent node, or on its way to another one.
            unknown = {one.name for one in instances if one.connected and shard_of(one.name) not in known}
            names |= unknown
        is_closed = state is ConnectionState.CLOSE
        return [one for one in instances if (one.name in names) is not is_closed]

    async def overview(self, among: tuple[str, ...] | None, most: int) -> Overview:
        """Return the overview, with at most ``most`` problems.

        Args:
            among: only these instances; ``None`` for everything.
        """
        node = self.nodes.node
        shows_nodes = node.is_shared and among is None
        asked = OverviewAsked(most, counts_instances=shows_nodes, among=among)
        gathered = await self.nodes.ask(OVERVIEW, asked, instances=among)
        parts = list(gathered.parts.values())
        webhooks = heapq.nsmallest(
            most, chain.from_iterable(part.webhooks for part in parts), key=lambda one: one.since or 0.0
        )
        others = sorted(chain.from_iterable(part.instances for part in parts), key=lambda one: one.instance)
        of_nodes = [
            msgspec.structs.replace(problem, node=name)
            for name, part in gathered.parts.items()
            for problem in part.system
        ]
        nodes = []
        if shows_nodes:
            nodes = [
                NodeState(
                    one.name,
                    shards,
                    one.heartbeat_age,
                    one.is_leaving,
                    one.name == node.name,
                    gathered.parts.get(one.name),
                )
                for one, shards in node.view.counted()
            ]
        return Overview(
            [*of_nodes, *webhooks, *others],
            nodes,
            gathered.silent,
            gathered.refusing,
            sum(part.codes for part in parts),
        )

    async def grouped(self, found: Overview, *, with_mutes: bool) -> list[ProblemGroup]:
        """Return the problems of an overview by their causes, what loses most first.

        Args:
            with_mutes: mutes are for those who see everything; others see all of their problems.
        """
        mutes = await self.mutes.all() if with_mutes else {}
        return group_problems(found.problems, mutes, self._clock.wall())

    async def problem_groups(
        self, among: tuple[str, ...] | None, *, with_mutes: bool
    ) -> tuple[list[ProblemGroup], list[str]]:
        """Return the present problems as :meth:`grouped` does, and the nodes that did not answer.

        Args:
            among: only of these instances; ``None`` for everything.
        """
        found = await self.overview(among, MOST_GROUPED)
        return await self.grouped(found, with_mutes=with_mutes), found.silent

    async def problem_group(
        self, name: str, among: tuple[str, ...] | None, *, with_mutes: bool
    ) -> ProblemGroup:
        """Return one of :meth:`problem_groups` by its id; raise ``NotFound`` if there is none now."""
        groups, _ = await self.problem_groups(among, with_mutes=with_mutes)
        for group in groups:
            if group.id == name:
                return group
        raise NotFound.of("problem.over", "This problem is over.")

    async def repair(self, repair: Repair, places: Sequence[tuple[str, str]]) -> RepairPart:
        """Repair webhooks and instances, each on its node; see :class:`RepairAsked`."""
        gathered = await self.nodes.ask(
            REPAIR,
            RepairAsked(repair, list(places), current_actor()),
            instances={instance for instance, _ in places},
            within=RESEND_WITHIN,
        )
        parts = gathered.parts.values()
        refused = [one for part in parts for one in part.refused]
        done = sum(part.done for part in parts)
        if done + len(refused) < len(places):
            missing = len(places) - done - len(refused)
            refused.append((f"{missing:,} others", ["Their node did not answer. Retry."]))
        return RepairPart(done, refused)

    async def problems(self) -> ProblemReport:
        """Return the present problems of all nodes, and which nodes have answered."""
        found = await self.overview(None, MOST_REPORTED)
        answered = sorted({node.name for node in found.nodes} - {*found.silent})
        return ProblemReport(self._clock.wall(), found.problems, answered)

    async def send_text(self, instance: str, number: str, text: str, key: str) -> None:
        """Send a text message through an instance, by the node that has it.

        Args:
            number: where it goes, as the network names it.
            key: the same for each repetition of this message.

        Raises:
            Unavailable: it was not sent, or its node did not answer in time: it may have been sent then.
        """
        asked = SendAsked(instance, number, text, key, current_actor())
        gathered = await self.nodes.ask(SEND, asked, instances=[instance], within=SEND_WITHIN)
        part = next(iter(gathered.parts.values()), SendPart())
        if part.refused is None:
            raise Unavailable.of(
                "fleet.no_answer",
                "The node of {instance!r} does not answer, or the instance moves. Retry.",
                instance=instance,
            )
        if part.refused:
            raise Unavailable(*received(part.refused))

    async def resend(
        self, deliveries: Sequence[tuple[str, str]], *, without_global: bool
    ) -> list[tuple[str, list[str]]]:
        """Send deliveries again, each by the node that has its instance.

        Args:
            deliveries: pairs of instance and id, in the order of sending.
            without_global: see :meth:`hookgw.deliveries.replay.Replays.resend`.

        Returns:
            The ids of refused deliveries, with the reasons in sentences.
        """
        gathered = await self.nodes.ask(
            RESEND,
            ResendAsked(list(deliveries), without_global, current_actor()),
            instances={instance for instance, _ in deliveries},
            within=RESEND_WITHIN,
        )
        refused = [one for part in gathered.parts.values() for one in part.refused]
        done = {name for part in gathered.parts.values() for name in part.done}
        why = "Its node did not answer, or its instance moves to another node. Retry."
        return refused + [(name, [why]) for _, name in deliveries if name not in done]

    async def cancel_one(self, instance: str, name: str, *, without_global: bool = False) -> DeliverySummary:
        """Cancel one delivery, by the node that has its lane.

        The arguments, the return value and the errors are those of
        :meth:`hookgw.deliveries.cancellation.Cancellations.cancel_one`; another node's refusal is a
        ``Conflict`` or ``Unavailable``.
        """
        try:
            return await self._deliveries.cancel_one(instance, name, without_global=without_global)
        except LaneElsewhere as error:
            elsewhere = error
        found = (await self._history.find(instance, name, without_global=without_global)).summary
        gathered = await self.nodes.ask(
            CANCEL,
            CancelAsked(instance, found.id, current_actor()),
            instances=[elsewhere.registration],
            within=RESEND_WITHIN,
        )
        if not gathered.parts:
            raise elsewhere
        for part in gathered.parts.values():
            if part.refused:
                raise (Conflict if part.is_settled else Unavailable)(*received(part.refused))
        return (await self._history.find(instance, found.id)).summary

    async def pass_on_reports(self, states: ConnectionStates) -> NoReturn:
        """Tell other nodes the events' reports of their instances' connections, until cancelled."""
        while True:
            reports = await states.take_for_others()
            names = {report.instance for report in reports}
            gathered = await self.nodes.ask(REPORTS, ReportsAsked(reports), instances=names)
            taken = {name for part in gathered.parts.values() for name in part.taken}
            states.put_back(report for report in reports if report.instance not in taken)
            if taken != names:
                await trio.sleep(RETRY_AFTER)

    async def pass_on_signs(self, quiet: QuietWatch) -> NoReturn:
        """Tell other nodes of the events of their instances that came in here, until cancelled."""
        while True:
            signs = await quiet.take_for_others()
            await self.nodes.ask(SIGNS, SignsAsked([*signs.values()]), instances=signs)
            await trio.sleep(PASS_ON_EVERY)


def _in_time(part: LanesPart, now: float) -> Iterable[ReportedLane]:
    """Return the lanes of a node with the times of this node's clock."""
    apart = now - part.now
    if abs(apart) < CLOCKS_APART:
        return part.lanes
    return [
        ReportedLane(
            msgspec.structs.replace(
                one.lane,
                head_since=None if one.lane.head_since is None else one.lane.head_since + apart,
                tried_since=None if one.lane.tried_since is None else one.lane.tried_since + apart,
                waiting_until=None if one.lane.waiting_until is None else one.lane.waiting_until + apart,
            ),
            one.instance,
            one.label,
        )
        for one in part.lanes
    ]
