"""The contract of the records: instances, registrations, jobs, sessions, values, and what plugins keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from hookgw.records.api_keys import Key
from hookgw.records.audit import AuditEntry
from hookgw.records.browser_sessions import BrowserSession
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job
from hookgw.records.registrations import Registration
from hookgw.records.rhythms import StoredRhythm


class Records(Protocol):
    """Instances, registrations, jobs, values and what plugins keep, encrypted if a master key is set.

    A damaged record raises ``StorageUnavailable``. ``audit`` has entries that are stored in the same commit,
    and so is ``job``, which is to park the deliveries of what goes: they stay.
    """

    async def load_instances(self) -> dict[str, Instance]:
        """Return all instances, by name."""

    async def put_instance(
        self, instance: Instance, first: Registration | None = None, *, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """Store an instance, and with it its first registration, if any, in one commit."""

    async def remove_instance(
        self,
        name: str,
        *,
        retired_as: str | None = None,
        registrations: Collection[str] = (),
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """Remove an instance with the state of its connector, and registrations, in one commit.

        With ``retired_as``, keep its events and deliveries under this name, which no instance can have, so
        that a later instance of the same name does not inherit them.
        """

    async def load_state(self, instance_id: str) -> Any:
        """Return the JSON value of an instance's newest :class:`ConnectorState`, or ``None``."""

    async def load_rhythm(self, instance_id: str) -> StoredRhythm | None:
        """Return when an instance's events come, as it was stored last."""

    async def put_rhythms(self, rhythms: Mapping[str, StoredRhythm]) -> None:
        """Store rhythms, by the ids of their instances, in one commit. They go with their instances."""

    async def load_coverage(self, instance_id: str) -> float | None:
        """Return until when an instance has all events of its network, as it was stored last."""

    async def put_coverage(self, until: Mapping[str, float]) -> None:
        """Store that, by the ids of instances, in one commit. It goes with its instance."""

    async def load_registrations(self) -> dict[str, Registration]: ...

    async def put_registration(
        self,
        registration: Registration,
        *,
        due: bool = False,
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """Store a registration.

        Args:
            due: in the same commit, make its waiting deliveries due at once: the registration has another
                URL, header, secret or timeout, and the wait was for the former one.
        """

    async def remove_registration(
        self, registration_id: str, *, job: Job | None = None, audit: Sequence[AuditEntry] = ()
    ) -> None: ...

    async def job_ids(self) -> frozenset[str]:
        """Return the ids of all jobs, none of which is read."""

    async def load_jobs(self, job_ids: Collection[str] | None = None) -> dict[str, Job]:
        """Return all jobs by id, or those of these ids that there are: at most some thousands."""

    async def put_job(self, *jobs: Job, audit: Sequence[AuditEntry] = ()) -> None: ...

    async def remove_jobs(self, job_ids: Collection[str]) -> None: ...

    async def load_sessions(self) -> dict[str, BrowserSession]:
        """Return all sessions of browsers, by id."""

    async def put_session(
        self,
        session: BrowserSession,
        *,
        is_new: bool = True,
        ended: Collection[str] = (),
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """Store a session, and remove ended sessions, in one commit.

        Args:
            is_new: whether to store the session even if the storage does not have it. Another node may have
                removed a session that this node knows.
            ended: the ids of the sessions to remove.
        """

    async def remove_sessions(self, session_ids: Collection[str]) -> None: ...

    async def load_keys(self) -> dict[str, Key]:
        """Return the keys of no instance that have a reach or rights, by name."""

    async def put_key(self, key: Key, *, audit: Sequence[AuditEntry] = ()) -> None: ...

    async def remove_keys(self, names: Collection[str], *, audit: Sequence[AuditEntry] = ()) -> None: ...

    async def load_plugin_records(self, plugin: str) -> dict[str, Any]:
        """Return the JSON values that a plugin has stored, by key."""

    async def put_plugin_records(self, plugin: str, changes: Mapping[str, Any]) -> None:
        """Store JSON values of a plugin, by key, in one commit; ``None`` removes one."""

    async def get_value(self, key: str) -> Any: ...

    async def put_value(self, key: str, value: Any, *, audit: Sequence[AuditEntry] = ()) -> None:
        """Store a JSON value. Raises ``TypeError`` if it cannot be written as JSON."""

    async def make_due(self, registration_id: str) -> None:
        """Make the waiting deliveries of a registration due at once, like ``put_registration(due=True)``."""
