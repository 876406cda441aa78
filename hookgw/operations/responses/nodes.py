"""Responses about the nodes of a fleet."""

from __future__ import annotations

from msgspec import Struct


class Node(Struct, frozen=True, kw_only=True, rename="camel"):
    """A node: a process of hookgw that shares its database with others.

    Attributes:
        node: its name.
        url: where other nodes reach it; null for a node that is alone.
        shards: how many of the 256 shards it holds. The instances of a shard are on its node.
        heartbeat_age: seconds since its last heartbeat.
        leaving: whether it stops, and hands its shards over.
        is_here: whether it is the node that answers.
    """

    node: str
    url: str | None
    shards: int
    heartbeat_age: float
    leaving: bool
    is_here: bool
