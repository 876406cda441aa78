"""Entering a fleet at the start."""

from __future__ import annotations

import socket

from hookgw.config.settings import FleetSettings
from hookgw.fleet.lease import Lease
from hookgw.fleet.ownership import Ownership
from hookgw.kernel.errors import Conflict, StartError, StorageUnavailable
from hookgw.store.fleet import Membership


async def join_fleet(settings: FleetSettings, members: Membership, lease: Lease) -> Ownership:
    """Enter the fleet. Read the records after this: what is known of them is as new as their version then.

    Raises:
        StartError: a node of this name lives, or nodes could not reach each other.
    """
    node, url = settings.node or socket.gethostname(), settings.url or ""
    ownership = Ownership(members, node, url, lease)
    try:
        await ownership.join()
        unreachable = [found.name for found in ownership.view.nodes if not found.url]
        if len(ownership.view.nodes) > 1 and unreachable:
            await members.leave()
            raise StartError(
                f"Other nodes cannot reach {', '.join(unreachable)}, and the database has "
                f"{len(ownership.view.nodes)} nodes with this one.",
                "Set fleet.url and fleet.secret on every node, or stop the others.",
            )
    except Conflict as error:
        raise StartError(str(error), "Give this node another fleet.node, or stop the other one.") from error
    except StorageUnavailable as error:
        raise StartError(str(error), "Start again when the database works.") from error
    members.known_version = ownership.view.version
    return ownership
