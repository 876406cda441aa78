"""Limits that the nodes of a fleet share: each node holds its part of them.

What is divided
---------------

====================================  =======  ==========================================================
limit                                 divided  why
====================================  =======  ==========================================================
requests with a key                   yes      they come to any node
wrong keys of an address              yes      they come to any node
connections to a host                 yes      lanes on all nodes lead to it
rate of a registration                no       its lanes are on one node
rate of a tag                         yes      its instances are on any node
attempts of a registration at once    no       its lanes are on one node
requests of networks, media           no       an instance is on one node, and they are forwarded there
requests and bodies in progress       no       the memory is the machine's
connections of clients, descriptors   no       the open files are the process's
memory of deliveries                  no       the memory is the machine's
backlog                               no       every node knows the whole of it
====================================  =======  ==========================================================

A call that is forwarded counts where it came in, and not again at the node that answers it.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from hookgw.fleet.fleet_node import FleetNode
from hookgw.records.fleet import DEAD_AFTER

logger = structlog.get_logger("hookgw.fleet")


class Divisible(Protocol):
    def divide(self, nodes: int) -> None:
        """Divide the limits among so many nodes, this one among them."""


async def divide_limits(node: FleetNode, *limits: Divisible) -> None:
    """Divide limits among the living nodes, again with each heartbeat that shows another number of them.

    A node that cannot reach the database keeps its former part.
    """
    divided_by = 1
    while True:
        # A node that leaves still sends and answers.
        nodes = max(1, sum(one.heartbeat_age < DEAD_AFTER for one in node.view.nodes))
        if nodes != divided_by:
            divided_by = nodes
            for one in limits:
                one.divide(nodes)
            logger.info("limits divided", node=node.name, nodes=nodes)
        await node.wait_viewed()
