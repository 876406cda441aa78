"""Decides which node of a fleet answers a call.

One node, the owner, decides everything about an instance (its connector, its lanes, its registrations and
keys). Any node accepts events, and reads the database and the records that every node has in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class Place(StrEnum):
    ANY = "any node, from the database or its own memory of the records"
    OWNER = "the node that has the instance in the path"
    OWNER_IN_BODY = "the node that has the instance in the body"
    ALL = "any node, which asks all others"
    THIS = "the node that is asked, about itself"
    NAMED = "the node that the query names; without one, the node that is asked"


PLACES = {
    "/": Place.ANY,
    "/verify-creds": Place.ANY,
    "/healthz": Place.THIS,
    "/readyz": Place.THIS,
    "/metrics": Place.THIS,
    "/openapi.json": Place.ANY,
    "/docs": Place.ANY,
    "/operations/secret": Place.ANY,
    "/instance/create": Place.OWNER_IN_BODY,
    "/instance/fetchInstances": Place.ALL,
    "/connector/list": Place.ANY,
    "/connector/find": Place.THIS,
    "/webhook/list": Place.ANY,
    "/event/kinds": Place.ANY,
    "/event/emit/<instance>": Place.ANY,
    "/event/emit/<instance>/<kind>": Place.ANY,
    "/delivery/list/<instance>": Place.ANY,
    "/delivery/find/<instance>/<name>": Place.ANY,
    "/lane/list": Place.ALL,
    "/job/find/<job_id>": Place.ANY,
    "/job/list": Place.ANY,
    "/key/create": Place.ANY,
    "/key/list": Place.ANY,
    "/key/delete/<key_name>": Place.ANY,
    "/audit/list": Place.ANY,
    "/audit/list/<instance>": Place.ANY,
    "/storage/backup": Place.THIS,
    "/node/list": Place.ANY,
    "/dashboard/": Place.ALL,
    "/dashboard/live/overview": Place.ALL,
    "/dashboard/login": Place.ANY,
    "/dashboard/logout": Place.ANY,
    "/dashboard/enter/<token>": Place.THIS,
    "/dashboard/assets/<name>": Place.ANY,
    "/dashboard/<path:rest>": Place.ANY,
    "/dashboard/instances": Place.ALL,
    "/dashboard/live/instances": Place.ALL,
    "/dashboard/new-instance": Place.OWNER_IN_BODY,
    "/dashboard/new-instance/options": Place.ANY,
    "/dashboard/find-servers": Place.THIS,
    "/dashboard/deliveries": Place.ANY,
    "/dashboard/live/deliveries": Place.ANY,
    "/dashboard/deliveries/resend": Place.ALL,
    "/dashboard/deliveries/skip": Place.OWNER_IN_BODY,
    "/dashboard/deliveries/replay": Place.OWNER_IN_BODY,
    "/dashboard/lanes": Place.ALL,
    "/dashboard/live/lanes": Place.ALL,
    "/dashboard/lanes/resume": Place.OWNER_IN_BODY,
    "/dashboard/kinds": Place.ANY,
    "/dashboard/system": Place.NAMED,
    "/dashboard/live/log": Place.NAMED,
    "/dashboard/system/backup": Place.THIS,
    "/dashboard/plugins/<plugin>/<path>": Place.ANY,
}
"""By path: every route that names no instance, and the others that any node can answer."""


def place_of(rule: str, variables: Collection[str]) -> Place:
    """Return which node answers a route.

    The owner of the instance in its path answers a plugin's route; without an instance, any node does.
    """
    known = PLACES.get(rule)
    if known is not None:
        return known
    return Place.OWNER if "instance" in variables else Place.ANY
