"""What a lane keeps of a registration, so that it is worked out once and not for every delivery. No I/O."""

from __future__ import annotations

import msgspec

from hookgw.config.settings import DeliverySettings
from hookgw.delivery.sender import Route, route_for
from hookgw.dispatch.retry_policy import Policy, policy_of
from hookgw.models.registrations import Registration


class Terms(msgspec.Struct, frozen=True):
    """How to send to a registration, and what follows when that fails."""

    route: Route
    policy: Policy


def terms_for(registration: Registration, settings: DeliverySettings) -> Terms:
    """Work them out from the registration and, where it is silent, the gateway's settings."""
    return Terms(route_for(registration), policy_of(registration, settings))
