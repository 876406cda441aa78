"""Requests of networks to instances: the token, the limits, and the call of the connector.

Networks do not repeat a request after a 4xx. So every temporary failure becomes :class:`Unavailable`, which
the API answers with 503.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from weakref import WeakKeyDictionary

import structlog
import trio

from hookgw.auth.rate_limit import Pace, TokenBucket
from hookgw.concurrency.light import in_task
from hookgw.core.ingest_url import takes_requests
from hookgw.core.registry import Registry
from hookgw.delivery.http.answer_memory import keeping_answers
from hookgw.fair import PerHolder
from hookgw.instances.connectors.network_request import answering
from hookgw.instances.connectors.runner import Connectors
from hookgw.instances.connectors.session import ConnectorSession
from hookgw.kernel.errors import (
    EventLeftOut,
    Invalid,
    NetworkRefused,
    NotFound,
    NotSupported,
    PluginFailed,
    ProofRefused,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from hookgw.records.connectors import IngestRequest, IngestResponse

logger = structlog.get_logger("hookgw.connector")

INGEST_TIMEOUT = 10.0
"""Seconds that a connector may take for a request. Networks rarely wait longer for an answer."""
MOST_AT_ONCE = 64
"""Requests of one instance that its connector works on at a time."""
LOGGED_EVERY = 10.0
"""Seconds between two lines in the log about refused requests of one instance."""
_RETRY_AFTER = 5.0
_RETRY_SOON = 1.0
_NO_TOKEN = "x" * 22
"""Compared in place of a missing token, so that the answer takes as long."""


class IngestService:
    """Passes requests of networks to connectors.

    Args:
        rate: requests per second of one instance; 0 for no limit.
        now: a monotonic clock, in seconds.
        on_limited: called with the name of the limit for each refused request.
    """

    def __init__(
        self,
        registry: Registry,
        connectors: Connectors,
        rate: int,
        now: Callable[[], float],
        on_limited: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._connectors = connectors
        # Not divided in a fleet: all requests for an instance go to the node that has it.
        self._pace = Pace(rate, now) if rate else None
        self._now = now
        self._on_limited = on_limited
        self._buckets: WeakKeyDictionary[ConnectorSession, TokenBucket] = WeakKeyDictionary()
        self._at_work = PerHolder[ConnectorSession]()
        self._logged_at: WeakKeyDictionary[ConnectorSession, float] = WeakKeyDictionary()

    def check(self, name: str, token: str) -> None:
        """Check the token of a request, before anything else.

        Raises:
            NotFound: there is no such instance, its connector takes no requests, or the token is wrong.
        """
        instance = self._registry.find_instance(name)
        known = ""
        if instance is not None:
            connector = self._connectors.find(instance)
            # One whose plugin is gone may come back, and many networks do not repeat a request after 404.
            if connector is None or takes_requests(connector):
                known = instance.ingest_token
        # One comparison in each case: neither the answer nor its time tells which names exist.
        is_right = hmac.compare_digest((known or _NO_TOKEN).encode(), token.encode("utf-8", "replace"))
        if not known or not is_right:
            raise NotFound.of("ingest.not_found", "There is no such instance, or the token is wrong.")

    def session(self, name: str) -> ConnectorSession:
        """Return the session for a request with a checked token, and count the request.

        Raises:
            Unavailable: the connector is not ready.
            TooManyRequests: the network sends too many requests.
        """
        session = self._connectors.ready_session(name)
        if session is None:
            raise _not_ready()
        if self._pace is not None:
            bucket = self._buckets.get(session)
            if bucket is None:
                bucket = self._buckets[session] = TokenBucket(self._pace)
            if wait := bucket.take():
                self._on_limited("key_rate")
                raise TooManyRequests.of(
                    "ingest.too_many_requests",
                    "The network sends too many requests. Retry later.",
                    retry_after=max(wait, _RETRY_SOON),
                )
        return session

    async def answer(self, session: ConnectorSession, request: IngestRequest) -> IngestResponse:
        """Return the connector's answer, once its events are on disk.

        Raises:
            ProofRefused: the network's proof is missing or wrong.
            Invalid: the request is malformed.
            NotSupported: the connector does not take this request.
            Unavailable: any other failure: the connector is not ready, fails, takes too long or works on too
                many requests, or the gateway cannot store events.
        """
        # Again: it may have ended while the body arrived.
        if self._connectors.ready_session(session.instance) is not session:
            raise _not_ready()
        if self._at_work.held(session) >= MOST_AT_ONCE:
            self._on_limited("instance_share")
            raise Unavailable.of(
                "ingest.connector_busy",
                "The connector works on {most} requests of this instance, the maximum. Retry later.",
                most=MOST_AT_ONCE,
                retry_after=_RETRY_SOON,
            )
        self._at_work.take(session)
        try:
            await in_task()
            with trio.move_on_after(INGEST_TIMEOUT), answering(), keeping_answers():
                return await session.connector.ingest(session, request)
        except EventLeftOut:
            return IngestResponse()  # after any other status, the network would repeat it for ever
        except (ProofRefused, Invalid, NotSupported, TooLarge) as refusal:
            # Networks do not repeat it, and few show the reason that they got: here it can be found.
            if self._now() - self._logged_at.get(session, -LOGGED_EVERY) >= LOGGED_EVERY:
                self._logged_at[session] = self._now()
                logger.warning(
                    "request of the network refused",
                    instance=session.instance,
                    connector=session.connector.name,
                    status=int(refusal.status),
                    reason=refusal.to_log(),
                )
            raise
        except PluginFailed as failure:  # logged at the boundary
            # Its text is not for strangers. A restart or a repair may help, so the network shall repeat it.
            raise Unavailable.of(
                "ingest.connector_failed", "The connector failed. Retry later.", retry_after=_RETRY_AFTER
            ) from failure
        except NetworkRefused as refusal:
            raise Unavailable.of(
                "ingest.network_refused",
                "The network refused what the connector asked of it. Retry later.",
                retry_after=refusal.retry_after or _RETRY_AFTER,
            ) from refusal
        finally:
            self._at_work.give(session)
        logger.warning(
            "inbound request took too long",
            instance=session.instance,
            connector=session.connector.name,
            seconds=INGEST_TIMEOUT,
        )
        raise Unavailable.of(
            "ingest.timeout",
            "The connector took longer than {seconds:g} s. Retry later.",
            seconds=INGEST_TIMEOUT,
            retry_after=_RETRY_AFTER,
        )


def _not_ready() -> Unavailable:
    return Unavailable.of(
        "ingest.connector_not_ready",
        "The instance's connector is not ready. Retry later.",
        retry_after=_RETRY_AFTER,
    )
