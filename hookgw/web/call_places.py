"""Decides which node of a fleet answers a call.

One node, the owner, decides everything about an instance (its connector, its lanes, its registrations and
keys). Any node accepts events, and reads the database and the records that every node has in memory. What it
lists of these has what other nodes have just changed: a client's calls may come to any node.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class CallPlace(StrEnum):
    ANY = "any node"
    RECORDS = "any node, from the database and its own memory of the records"
    OWNER = "the node that has the instance in the path"
    OWNER_IN_BODY = "the node that has the instance in the body"
    OWNER_OF_JOB = "the node that has the instance of the job"
    ALL = "any node, from its own memory of the records, and by asking all others"
    THIS = "the node that is asked, about itself"
    NAMED = "the node that the query names; without one, the node that is asked"


PLACES = {
    "/": CallPlace.ANY,
    "/verify-creds": CallPlace.ANY,
    "/healthz": CallPlace.THIS,
    "/readyz": CallPlace.THIS,
    "/metrics": CallPlace.THIS,
    "/openapi.json": CallPlace.ANY,
    "/docs": CallPlace.ANY,
    "/docs/http": CallPlace.ANY,
    "/docs/<path:page>": CallPlace.ANY,
    "/operations/secret": CallPlace.ANY,
    "/instance/create": CallPlace.OWNER_IN_BODY,
    "/instance/fetchInstances": CallPlace.ALL,
    "/apply": CallPlace.ALL,
    "/connector/list": CallPlace.ANY,
    "/connector/find": CallPlace.THIS,
    "/webhook/list": CallPlace.RECORDS,
    "/event/kinds": CallPlace.ANY,
    "/event/list": CallPlace.RECORDS,
    "/event/emit/<instance>": CallPlace.ANY,
    "/event/emit/<instance>/<kind>": CallPlace.ANY,
    "/delivery/list/<instance>": CallPlace.RECORDS,
    "/delivery/find/<instance>/<name>": CallPlace.RECORDS,
    "/delivery/list": CallPlace.RECORDS,
    "/delivery/replay": CallPlace.OWNER_IN_BODY,
    "/delivery/cancel": CallPlace.OWNER_IN_BODY,
    "/lane/list": CallPlace.ALL,
    "/job/find/<job_id>": CallPlace.RECORDS,
    "/job/list": CallPlace.RECORDS,
    "/job/pause/<job_id>": CallPlace.OWNER_OF_JOB,
    "/job/resume/<job_id>": CallPlace.OWNER_OF_JOB,
    "/job/cancel/<job_id>": CallPlace.OWNER_OF_JOB,
    "/key/create": CallPlace.ANY,
    "/key/list": CallPlace.RECORDS,
    "/key/delete/<key_name>": CallPlace.ANY,
    "/portal/link": CallPlace.ANY,
    "/audit/list": CallPlace.RECORDS,
    "/audit/list/<instance>": CallPlace.RECORDS,
    "/storage/backup": CallPlace.THIS,
    "/node/list": CallPlace.ANY,
    "/figures/find": CallPlace.RECORDS,
    "/figures/find/<instance>": CallPlace.RECORDS,
    "/diagnosis": CallPlace.ALL,
    "/problem/list": CallPlace.ALL,
    "/problem/mute/<problem>": CallPlace.ALL,
    "/problem/unmute/<problem>": CallPlace.ANY,
    "/mcp": CallPlace.ANY,
    "/dashboard/": CallPlace.ALL,
    "/dashboard/live/overview": CallPlace.ALL,
    "/dashboard/problems/repair": CallPlace.ALL,
    "/dashboard/tour": CallPlace.ALL,
    "/dashboard/tour/show": CallPlace.ANY,
    "/dashboard/problems/mute": CallPlace.ALL,
    "/dashboard/problems/unmute": CallPlace.ANY,
    "/dashboard/figures": CallPlace.RECORDS,
    "/dashboard/login": CallPlace.ANY,
    "/dashboard/logout": CallPlace.ANY,
    "/dashboard/language/<language>": CallPlace.ANY,
    "/dashboard/enter/<token>": CallPlace.THIS,
    "/dashboard/assets/<version>/<name>": CallPlace.ANY,
    "/dashboard/<path:rest>": CallPlace.ANY,
    "/dashboard/instances": CallPlace.ALL,
    "/dashboard/live/instances": CallPlace.ALL,
    "/dashboard/codes": CallPlace.ALL,
    "/dashboard/live/codes": CallPlace.ALL,
    "/dashboard/new-instance": CallPlace.OWNER_IN_BODY,
    "/dashboard/new-instance/options": CallPlace.ANY,
    "/dashboard/find-servers": CallPlace.THIS,
    "/dashboard/search": CallPlace.RECORDS,
    "/dashboard/search/words": CallPlace.RECORDS,
    "/dashboard/events": CallPlace.RECORDS,
    "/dashboard/live/events": CallPlace.RECORDS,
    "/dashboard/deliveries": CallPlace.RECORDS,
    "/dashboard/live/deliveries": CallPlace.RECORDS,
    "/dashboard/deliveries/export": CallPlace.RECORDS,
    "/dashboard/deliveries/resend": CallPlace.ALL,
    "/dashboard/deliveries/skip": CallPlace.OWNER_IN_BODY,
    "/dashboard/deliveries/replay": CallPlace.OWNER_IN_BODY,
    "/dashboard/deliveries/cancel": CallPlace.OWNER_IN_BODY,
    "/dashboard/lanes": CallPlace.ALL,
    "/dashboard/live/lanes": CallPlace.ALL,
    "/dashboard/lanes/resume": CallPlace.OWNER_IN_BODY,
    "/dashboard/lanes/all": CallPlace.ALL,
    "/dashboard/jobs": CallPlace.RECORDS,
    "/dashboard/jobs/<job_id>": CallPlace.RECORDS,
    "/dashboard/live/job/<job_id>": CallPlace.ANY,
    "/dashboard/live/jobs": CallPlace.ANY,
    "/dashboard/jobs/order": CallPlace.OWNER_OF_JOB,
    "/dashboard/webhooks/backfill": CallPlace.OWNER_IN_BODY,
    "/dashboard/keys": CallPlace.RECORDS,
    "/dashboard/keys/create": CallPlace.ANY,
    "/dashboard/keys/<key_name>/revoke": CallPlace.ANY,
    "/dashboard/kinds": CallPlace.ANY,
    "/dashboard/portal": CallPlace.RECORDS,
    "/dashboard/portal-link": CallPlace.ANY,
    "/dashboard/system": CallPlace.NAMED,
    "/dashboard/live/log": CallPlace.NAMED,
    "/dashboard/system/backup": CallPlace.THIS,
    "/dashboard/plugins/<plugin>/<path>": CallPlace.ANY,
}
"""By path: every route that names no instance, and the others that any node can answer."""


def place_of(rule: str, variables: Collection[str]) -> CallPlace:
    """Return which node answers a route.

    The owner of the instance in its path answers a plugin's route; without an instance, any node does.
    """
    known = PLACES.get(rule)
    if known is not None:
        return known
    return CallPlace.OWNER if "instance" in variables else CallPlace.ANY
