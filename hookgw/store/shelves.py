"""Instances, registrations and the like: ``shelve.Shelf`` over a table of the engine, with JSON values.

The files of the standard library lose keys when the process is killed, and its pickles can run code when they
are read. Here the table commits with everything else, and a value is the JSON of a typed record, or an error.
"""

from __future__ import annotations

import shelve
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.errors import StorageUnavailable
from hookgw.records.api_keys import Key
from hookgw.records.audit import AuditEntry
from hookgw.records.browser_sessions import BrowserSession
from hookgw.records.figures import Holder
from hookgw.records.instances import Instance
from hookgw.records.jobs import Job
from hookgw.records.registrations import Registration
from hookgw.records.rhythms import StoredRhythm
from hookgw.store.commits.group_commit import GroupCommit
from hookgw.store.commits.jobs import Tx, Tx_contra
from hookgw.store.encryption import DecryptionFailed, RecordCipher
from hookgw.store.reader import C, C_contra, ConnectionReader
from hookgw.store.records import ConnectorState

T = TypeVar("T")

REMOVED_AT_ONCE = 500
"""The most records that one statement removes; of jobs and sessions, also the most of one commit."""


def place_of(shelf: str, key: bytes) -> bytes:
    """Return the associated data that ties an encrypted record to its place."""
    return shelf.encode() + b"\0" + key


class RecordStatements(Protocol[C_contra, Tx_contra]):
    """What an engine brings, as a module."""

    def table(self, connection: C_contra, shelf: str) -> Table: ...

    def write_audit(self, transaction: Tx_contra, entries: Sequence[AuditEntry]) -> None: ...

    def rename_instance(self, transaction: Tx_contra, old: str, new: str) -> None:
        """Keep the events and deliveries of an instance under another name."""

    def forget_figures(self, transaction: Tx_contra, holders: Collection[Holder]) -> None:
        """Remove all figures over time of some instances and registrations."""

    def make_due(self, connection: C_contra, registration: str) -> int:
        """Make the waiting deliveries of a registration due at once; return how many there were."""


class ShelvedRecords(Collaborator, Generic[C, Tx]):
    """The records; see :class:`hookgw.store.Records`. Without a cipher they are in the clear."""

    _commits: GroupCommit[Tx]
    _reader: ConnectionReader[C]
    _cipher: RecordCipher | None
    _sql: RecordStatements[C, Tx]

    async def _read(self, function: Callable[[Shelves], T]) -> T:
        return await self._reader.run(lambda connection: function(self._shelves_of(connection)))

    async def _change(self, change: Callable[[Shelves], object], audit: Sequence[AuditEntry] = ()) -> None:
        def run(transaction: Tx) -> None:
            change(self._shelves(transaction))
            self.write_audit(transaction, audit)

        await self._commits.call(run)

    def _shelves(self, transaction: Tx) -> Shelves:
        return self._shelves_of(transaction.connection)

    def _shelves_of(self, connection: C) -> Shelves:
        return Shelves(partial(self._sql.table, connection), self._cipher)

    async def load_instances(self) -> dict[str, Instance]:
        return await self._read(lambda shelves: shelves.instances.load())

    async def put_instance(
        self, instance: Instance, first: Registration | None = None, *, audit: Sequence[AuditEntry] = ()
    ) -> None:
        def put(shelves: Shelves) -> None:
            shelves.instances[instance.name] = instance
            if first is not None:
                shelves.registrations[first.id] = first

        await self._change(put, audit)

    async def remove_instance(
        self,
        name: str,
        *,
        retired_as: str | None = None,
        registrations: Collection[str] = (),
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        def remove(transaction: Tx) -> None:
            shelves = self._shelves(transaction)
            instance = shelves.instances.pop(name, None)
            if instance is not None:
                shelves.states.pop(instance.id, None)
                shelves.rhythms.pop(instance.id, None)
                shelves.coverage.pop(instance.id, None)
            for registration_id in registrations:
                shelves.registrations.pop(registration_id, None)
            gone = [Holder("instance", name), *(Holder("webhook", one) for one in registrations)]
            self._sql.forget_figures(transaction, gone)
            self.write_job(transaction, job)
            self.write_audit(transaction, audit)
            if retired_as is not None:
                # One row, however many deliveries: they refer to the instance by its number.
                self._sql.rename_instance(transaction, name, retired_as)

        await self._commits.call(remove)

    async def load_registrations(self) -> dict[str, Registration]:
        return await self._read(lambda shelves: shelves.registrations.load())

    async def put_registration(
        self,
        registration: Registration,
        *,
        due: bool = False,
        job: Job | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        await self._commits.call(
            partial(self.write_registration, registration=registration, due=due, job=job, audit=audit)
        )

    def write_registration(
        self,
        transaction: Tx,
        registration: Registration,
        *,
        due: bool,
        job: Job | None,
        audit: Sequence[AuditEntry],
    ) -> None:
        """Store a registration with whatever else the transaction changes; see :meth:`put_registration`."""
        self._shelves(transaction).registrations[registration.id] = registration
        self.write_job(transaction, job)
        self.write_audit(transaction, audit)
        if due:
            transaction.count_rows(self._sql.make_due(transaction.connection, registration.id))

    async def make_due(self, registration_id: str) -> None:
        def make_due(transaction: Tx) -> None:
            transaction.count_rows(self._sql.make_due(transaction.connection, registration_id))

        await self._commits.call(make_due)

    async def remove_registration(
        self, registration_id: str, *, job: Job | None = None, audit: Sequence[AuditEntry] = ()
    ) -> None:
        def remove(transaction: Tx) -> None:
            self._shelves(transaction).registrations.pop(registration_id, None)
            self._sql.forget_figures(transaction, [Holder("webhook", registration_id)])
            self.write_job(transaction, job)
            self.write_audit(transaction, audit)

        await self._commits.call(remove)

    async def job_ids(self) -> frozenset[str]:
        return await self._read(lambda shelves: frozenset(shelves.jobs))

    async def load_jobs(self, job_ids: Collection[str] | None = None) -> dict[str, Job]:
        return await self._read(lambda shelves: shelves.jobs.load(job_ids))

    async def put_job(self, *jobs: Job, audit: Sequence[AuditEntry] = ()) -> None:
        def put(transaction: Tx) -> None:
            for job in jobs:
                self.write_job(transaction, job)
            self.write_audit(transaction, audit)

        await self._commits.call(put)

    async def remove_jobs(self, job_ids: Collection[str]) -> None:
        await self._remove_in_steps(lambda shelves: shelves.jobs, job_ids)

    async def load_sessions(self) -> dict[str, BrowserSession]:
        return await self._read(lambda shelves: shelves.sessions.load())

    async def put_session(
        self,
        session: BrowserSession,
        *,
        is_new: bool = True,
        ended: Collection[str] = (),
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        def put(shelves: Shelves) -> None:
            shelves.sessions.remove(ended)
            if is_new or session.id in shelves.sessions:
                shelves.sessions[session.id] = session

        await self._change(put, audit)

    async def remove_sessions(self, session_ids: Collection[str]) -> None:
        await self._remove_in_steps(lambda shelves: shelves.sessions, session_ids)

    async def load_keys(self) -> dict[str, Key]:
        return await self._read(lambda shelves: shelves.keys.load())

    async def put_key(self, key: Key, *, audit: Sequence[AuditEntry] = ()) -> None:
        await self._change(lambda shelves: shelves.keys.update({key.name: key}), audit)

    async def remove_keys(self, names: Collection[str], *, audit: Sequence[AuditEntry] = ()) -> None:
        await self._change(lambda shelves: shelves.keys.remove(names), audit)

    async def _remove_in_steps(
        self, shelf: Callable[[Shelves], RecordShelf[Any]], keys: Collection[str]
    ) -> None:
        # What has ended while hookgw did not run goes at once: tens of thousands in one commit held up all
        # events for so long that they were refused.
        for some in _in_parts(keys):
            await self._change(lambda shelves: shelf(shelves).remove(some))  # noqa: B023 -- the next part comes after it

    def write_audit(self, transaction: Tx, entries: Sequence[AuditEntry]) -> None:
        self._sql.write_audit(transaction, entries)

    def read_job(self, transaction: Tx, job_id: str) -> Job | None:
        """Return a job as it is stored, with what the transaction has changed so far."""
        return self._shelves(transaction).jobs.get(job_id)

    def write_job(self, transaction: Tx, job: Job | None) -> None:
        """Store a job, if there is one, with whatever else the transaction changes."""
        if job is not None:
            self._shelves(transaction).jobs[job.id] = job

    async def load_state(self, instance_id: str) -> Any:
        found = await self._read(lambda shelves: shelves.states.get(instance_id))
        return None if found is None else found["state"]

    def write_state(self, transaction: Tx, state: ConnectorState) -> None:
        """Store the state of a connector with whatever else the transaction changes."""
        # In an object: a state may be a text that begins like an encrypted record.
        record = {"state": msgspec.Raw(state.state_json)}
        self._shelves(transaction).states[state.instance_id] = record
        transaction.count_rows(1)

    async def load_rhythm(self, instance_id: str) -> StoredRhythm | None:
        return await self._read(lambda shelves: shelves.rhythms.get(instance_id))

    async def put_rhythms(self, rhythms: Mapping[str, StoredRhythm]) -> None:
        await self._change(lambda shelves: shelves.rhythms.update(rhythms))

    async def load_coverage(self, instance_id: str) -> float | None:
        return await self._read(lambda shelves: shelves.coverage.get(instance_id))

    async def put_coverage(self, until: Mapping[str, float]) -> None:
        await self._change(lambda shelves: shelves.coverage.update(until))

    async def load_plugin_records(self, plugin: str) -> dict[str, Any]:
        return await self._read(lambda shelves: shelves.of_plugin(plugin).load())

    async def put_plugin_records(self, plugin: str, changes: Mapping[str, Any]) -> None:
        def put(transaction: Tx) -> None:
            shelf = self._shelves(transaction).of_plugin(plugin)
            for key, value in changes.items():
                if value is None:
                    shelf.pop(key, None)
                else:
                    shelf[key] = value
            transaction.count_rows(len(changes))

        await self._commits.call(put)

    async def get_value(self, key: str) -> Any:
        return await self._read(lambda shelves: shelves.values.get(key))

    async def put_value(self, key: str, value: Any, *, audit: Sequence[AuditEntry] = ()) -> None:
        await self._change(lambda shelves: shelves.values.update({key: value}), audit)


class Shelves:
    """The shelves of one connection, by name or id. A state of a connector is in an object."""

    def __init__(self, table: Callable[[str], Table], cipher: RecordCipher | None = None) -> None:
        self.instances: RecordShelf[Instance] = RecordShelf(table("instances"), Instance, cipher)
        self.registrations: RecordShelf[Registration] = RecordShelf(
            table("registrations"), Registration, cipher
        )
        self.jobs: RecordShelf[Job] = RecordShelf(table("jobs"), Job, cipher)
        self.sessions: RecordShelf[BrowserSession] = RecordShelf(table("sessions"), BrowserSession, cipher)
        self.keys: RecordShelf[Key] = RecordShelf(table("keys"), Key, cipher)
        self.values: RecordShelf[Any] = RecordShelf(table("values"), object, cipher)
        self.states: RecordShelf[dict[str, Any]] = RecordShelf(table("states"), dict[str, Any], cipher)
        self.coverage: RecordShelf[float] = RecordShelf(table("coverage"), float, cipher)
        self.rhythms: RecordShelf[StoredRhythm] = RecordShelf(table("rhythms"), StoredRhythm, cipher)
        self._table, self._cipher = table, cipher

    def of_plugin(self, plugin: str) -> RecordShelf[Any]:
        """Return the shelf of a plugin's own records."""
        return RecordShelf(self._table(f"plugin {plugin}"), object, self._cipher)


class Table(MutableMapping[bytes, bytes]):
    """One shelf's rows, keys and values as bytes. Every call runs at once on the connection."""

    mark: str
    """How the engine writes a parameter."""
    put: str
    """The statement that adds or replaces a row: shelf, key and value."""

    def __init__(self, connection: Any, shelf: str) -> None:
        self._connection = connection
        self.shelf = shelf

    def __getitem__(self, key: bytes) -> bytes:
        row = self._execute("SELECT value FROM shelves WHERE shelf = ? AND key = ?", key).fetchone()
        if row is None:
            raise KeyError(key)
        return bytes(row[0])

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._execute(self.put, key, value)

    def __delitem__(self, key: bytes) -> None:
        if not self._execute("DELETE FROM shelves WHERE shelf = ? AND key = ?", key).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        rows = self._execute("SELECT key FROM shelves WHERE shelf = ? ORDER BY key").fetchall()
        return iter([bytes(row[0]) for row in rows])

    def __len__(self) -> int:
        return int(self._execute("SELECT count(*) FROM shelves WHERE shelf = ?").fetchone()[0])

    def rows(self, keys: Collection[bytes] | None = None) -> list[tuple[bytes, bytes]]:
        """Return all keys, or some, with their values, in the order of the keys, read by one statement."""
        # NULL equals nothing, and PostgreSQL refuses an empty list.
        among = "" if keys is None else f"AND key IN ({', '.join(['NULL', *'?' * len(keys)])})"
        statement = f"SELECT key, value FROM shelves WHERE shelf = ? {among} ORDER BY key"  # noqa: S608 - only "?"
        rows = self._execute(statement, *(keys or ()))
        return [(bytes(key), bytes(value)) for key, value in rows]

    def remove(self, keys: Collection[bytes]) -> None:
        """Remove some rows, as far as they are there, by one statement."""
        if keys:
            marks = ", ".join("?" * len(keys))
            self._execute(f"DELETE FROM shelves WHERE shelf = ? AND key IN ({marks})", *keys)  # noqa: S608 - only "?"

    def _execute(self, statement: str, *given: bytes) -> Any:
        return self._connection.execute(statement.replace("?", self.mark), (self.shelf, *given))


class RecordShelf(shelve.Shelf[T]):
    """A shelf of records of one type, as JSON, encrypted if there is a cipher.

    Every method raises the engine's errors when the storage refuses. Reading a value that is not JSON of the
    type, or cannot be decrypted, raises ``StorageUnavailable`` and names the shelf and the key.
    """

    def __init__(self, table: Table, record: type[T], cipher: RecordCipher | None = None) -> None:
        super().__init__(table)
        self._table = table
        self._cipher = cipher
        self._decoder = msgspec.json.Decoder(record)

    # shelve.Shelf would unpickle in __getitem__ and pickle in __setitem__. All its other methods that read or
    # write a value go through these two.

    def __getitem__(self, key: str) -> T:
        return self._decode(key, self._table[key.encode()])

    def __setitem__(self, key: str, value: T) -> None:
        encoded, name = msgspec.json.encode(value), key.encode()
        if self._cipher is not None:
            encoded = msgspec.json.encode(self._cipher.encrypt(place_of(self._table.shelf, name), encoded))
        self._table[name] = encoded

    def load(self, keys: Collection[str] | None = None) -> dict[str, T]:
        """Return all records by key, or some, read by one statement, in the order of the keys."""
        rows = self._table.rows(None if keys is None else [key.encode() for key in keys])
        return {(name := key.decode()): self._decode(name, value) for key, value in rows}

    def remove(self, keys: Collection[str]) -> None:
        """Remove records, as far as they are there; none of them is read."""
        for some in _in_parts(keys):
            self._table.remove([key.encode() for key in some])

    def _decode(self, key: str, value: bytes) -> T:
        try:
            if self._cipher is not None:
                encrypted = str(msgspec.json.decode(value))
                value = self._cipher.decrypt(place_of(self._table.shelf, key.encode()), encrypted)
            return self._decoder.decode(value)
        # A record that cannot be read is no record that is missing: to go on would lose it for good.
        except (msgspec.DecodeError, UnicodeDecodeError, DecryptionFailed) as error:
            raise StorageUnavailable.of(
                "storage.record_damaged",
                "The storage is damaged: on the shelf {shelf}, {key!r} is not a valid record ({error}).",
                shelf=self._table.shelf,
                key=key,
                error=error,
            ) from error


def _in_parts(keys: Collection[str]) -> Iterator[list[str]]:
    left = list(keys)
    for start in range(0, len(left), REMOVED_AT_ONCE):
        yield left[start : start + REMOVED_AT_ONCE]
