"""Asks every node of the fleet at once for the facts that only that node knows: its lanes, its connections.

The nodes ask each other over HTTP, at :data:`PATH`, which nobody else can call: the target, which has the
digest of the body, is signed with ``fleet.secret``. A node that does not answer in time is named in the
result. Without a fleet, a question is a call of a function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

import httpx
import msgspec
import structlog
import trio

from hookgw.auth.fleet_secret import FLEET_SECRET_VALID_FOR, HEADER, OF_NODE, Origin
from hookgw.concurrency.clock import Clock
from hookgw.core.this_node import ThisNode
from hookgw.fleet.peers import Peers
from hookgw.records.fleet import FleetMember
from hookgw.records.shards import shard_of

PATH = "/fleet/"
"""Below the base path. The name of the question follows."""

ANSWER_WITHIN = 2.0
"""Seconds that all nodes together have to answer, unless more is said."""

_REFUSED = 401
"""Who has no valid signature has no key, either."""

logger = structlog.get_logger("hookgw.fleet")

Asked = TypeVar("Asked", bound=msgspec.Struct)
Part = TypeVar("Part", bound=msgspec.Struct)


class Question(msgspec.Struct, Generic[Asked, Part], frozen=True):
    """A question that every node can be asked.

    The nodes of a fleet may run two versions during an upgrade: give new fields of both types a default.

    Attributes:
        name: in the path.
        asked: the type of its argument.
        part: the type of an answer.
    """

    name: str
    asked: type[Asked]
    part: type[Part]


class Gathered(msgspec.Struct, Generic[Part], frozen=True):
    """The answers of the nodes.

    Attributes:
        parts: by the name of the node, sorted; without a fleet, under the empty name.
        silent: the nodes that did not answer, sorted.
        refusing: the silent nodes that refused the question: they do not know its signature, or find it too
            old.
    """

    parts: dict[str, Part]
    silent: list[str] = []
    refusing: list[str] = []


Answers = Mapping[Question[Any, Any], Callable[[Any], Awaitable[Any]]]


class AllNodes:
    """Asks this node and the others.

    Args:
        peers: the others; ``None`` if there can be none.
        base_path: of the HTTP API, the same on all nodes.
        answers: the functions that answer for this node.
    """

    def __init__(
        self, node: ThisNode, peers: Peers | None, base_path: str, clock: Clock, answers: Answers
    ) -> None:
        self.node = node
        self._peers = peers
        self._path = base_path + PATH
        self._clock = clock
        self._answers = answers
        self._by_name = {question.name: question for question in answers}
        self._silent: set[str] = set()
        self._refusing: set[str] = set()

    async def ask(
        self,
        question: Question[Asked, Part],
        asked: Asked,
        *,
        instances: Collection[str] | None = None,
        within: float = ANSWER_WITHIN,
    ) -> Gathered[Part]:
        """Ask all nodes at once.

        Args:
            instances: ask only the nodes that have these; an instance that moves has none.
            within: the seconds that all nodes together have to answer.
        """
        this, peers = self.node, self._peers
        if peers is None:
            return Gathered({this.label: await self._answers[question](asked)})
        nodes = list(this.view.nodes)
        if instances is not None:
            owners = {this.view.owners[shard_of(name)] for name in instances}
            nodes = [node for node in nodes if node.generation in owners]
        found: dict[str, Part] = {}
        body = msgspec.msgpack.encode(asked)

        async def ask_one(node: FleetMember) -> None:
            if node.name == this.name:
                found[node.name] = await self._answers[question](asked)
            else:
                part = await self._ask_other(peers, node, question, body)
                if part is not None:
                    found[node.name] = part

        with trio.move_on_after(within):
            async with trio.open_nursery() as nursery:
                for node in nodes:
                    nursery.start_soon(ask_one, node)
        names = sorted(node.name for node in nodes)
        silent = set(names) - found.keys()
        if new := silent - self._silent:  # once: a page that is open asks every second
            logger.warning("nodes do not answer", silent=sorted(new))
        self._silent = (self._silent - found.keys()) | silent
        return Gathered(
            {name: found[name] for name in names if name in found},
            [name for name in names if name not in found],
            sorted(silent & self._refusing),
        )

    async def _ask_other(
        self, peers: Peers, node: FleetMember, question: Question[Asked, Part], body: bytes
    ) -> Part | None:
        if peers.secret is None:
            return None
        target = f"{self._path}{question.name}?{digest_of(body)}".encode()
        signed = peers.secret.sign("POST", target, Origin("", OF_NODE), self._clock.wall())
        url = httpx.URL(node.url).copy_with(raw_path=target)
        headers = [(HEADER, signed), (b"content-type", b"application/msgpack")]
        with peers.calls.waiting(node):
            try:
                response = await peers.http.post(url, content=body, headers=headers)
                self._note_refusal(node.name, is_refused=response.status_code == _REFUSED)
                if response.status_code == 200:
                    return msgspec.msgpack.decode(response.content, type=question.part)
            except (httpx.HTTPError, msgspec.MsgspecError):
                self._refusing.discard(node.name)
        return None

    def _note_refusal(self, node: str, *, is_refused: bool) -> None:
        if not is_refused:
            self._refusing.discard(node)
        elif node not in self._refusing:
            self._refusing.add(node)
            logger.warning(
                "a node refuses what this one signs",
                node=node,
                reason="its clock, or this node's, may be wrong by more than "
                f"{FLEET_SECRET_VALID_FOR / 60:.0f} minutes",
                fix="Set the clocks of both machines by NTP. If they are right, fleet.secret differs.",
            )

    async def answer(self, name: str, body: bytes) -> bytes | None:
        """Return this node's answer to another one; ``None`` if it does not know the question.

        Raises:
            msgspec.MsgspecError: the body is of another version.
        """
        question = self._by_name.get(name)
        if question is None:
            return None
        asked = msgspec.msgpack.decode(body, type=question.asked)
        return msgspec.msgpack.encode(await self._answers[question](asked))


def digest_of(body: bytes) -> str:
    """Return the SHA-256 digest of a question's body. It is part of the signed target."""
    return hashlib.sha256(body).hexdigest()
