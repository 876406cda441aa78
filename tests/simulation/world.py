"""A run: a gateway, from its first start to its last end, in a world that follows from a seed."""

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, MutableSequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec
import structlog
import trio

import hookgw.records.events
from hookgw import Event, Gateway, Registration
from hookgw.core.survey import survey
from hookgw.store import steps
from hookgw.store.commits import inline
from tests.public.app import open_gateway
from tests.public.concurrency import Clock
from tests.public.config import Settings
from tests.public.core import LONG_WORK, LongWork
from tests.public.delivery import SignatureInvalid, verify
from tests.public.kernel import finish, random_source, verifying_key
from tests.public.plugins import Hooks, LoadedPlugins, PluginInfo, new_manager
from tests.public.store import CLOSE_GRACE, EventQuery
from tests.public.web import AppApplication as Application
from tests.public.web import Routing
from tests.simulation.api import Api
from tests.simulation.clients import Clients
from tests.simulation.clock import SimulatedClock
from tests.simulation.connector import SimulatedConnector
from tests.simulation.disk import Disk
from tests.simulation.history import (
    FINAL,
    Answered,
    Arrived,
    Committed,
    Dead,
    Ended,
    Faulted,
    Final,
    History,
    Logged,
    Measured,
    Metered,
    Printed,
    Raised,
    Record,
    Row,
    Rules,
    Started,
    Stopped,
    Unanswered,
)
from tests.simulation.network import Host, Line, Network, Request, checksum
from tests.simulation.plugin import QuietPlugin, SimulatedPlugin
from tests.simulation.pullers import Pullers
from tests.simulation.scenario import DAY, GLOBAL_KEY, PULLED, Scenario, scenario_of
from tests.simulation.trio_internals import order_of_tasks
from tests.support.application import create_app
from tests.support.compiled_rules import CompiledOnce

CALM = 1.5 * 86_400.0
"""Seconds at the end of the last life in which nothing more should happen."""
BACKUPS = "backups"
OPERATIONS = "operations-operations-0"
BY_LABEL = ("hookgw_deliveries_total", "hookgw_attempts_total")
FIGURES = (*BY_LABEL, "hookgw_events_accepted_total", "hookgw_backlog_deliveries")
_MANAGER = new_manager()
"""Of the life that is: making one takes longer than all other steps of a start together."""


class World:
    """Everything around the gateway, and what is known of it.

    Args:
        seed: decides everything.
        folder: an empty one.
        history: gets the records.
        hub: whether one epoll watches all sockets.
    """

    def __init__(self, seed: int, folder: Path, history: History, *, hub: bool = True) -> None:
        self.seed = seed
        self._hub = hub
        self.scenario: Scenario = scenario_of(seed, folder / "1")
        self.history = history
        self.clock = SimulatedClock()
        self.life = 0
        self.is_over = True
        self.secrets: dict[str, str] = {GLOBAL_KEY: "the global key"}
        self.names: dict[str, str] = {}
        self.keys: dict[str, list[Registration]] = {}
        self._numbers = 0
        self._open: dict[int, tuple[int, float, float, str, str]] = {}
        self._aliases: dict[str, str] = {}
        self._folder = folder
        hosts = [Host(name, number) for number, name in enumerate(self.scenario.hosts, 1)]
        self.network = Network(hosts, self.chance("network"), self, self.scenario.latency)
        self.disk: Disk
        self.gateway: Gateway
        self.api: Api | None = None
        self.clients = Clients(self, self.chance("clients"))
        self.pullers = Pullers(self, self.chance("pullers"))

    def chance(self, purpose: str) -> random.Random:
        """Return the seed's source of chance for a purpose: more draws of one do not change others."""
        return random.Random(f"{purpose} {self.seed}")

    def note(self, record: Record) -> None:
        """Add a record."""
        self.history.records.append(record)

    @property
    def now(self) -> float:
        """The simulated time."""
        return self.clock.current_time()

    def configured(self) -> list[Registration]:
        operations = self.gateway.operational.registration
        everywhere = self.gateway.registry.hearing("")
        return [*everywhere, operations] if operations else everywhere

    # What receivers report: see network.Observer.

    def arrived(self, request: Request, lasts: float | None = None) -> int:
        """See :class:`tests.simulation.network.Observer`.

        Args:
            lasts: the seconds of the attempt, if it is no request to a host.
        """
        self._numbers += 1
        _, name, version = request.path.split("/")
        headers = request.headers
        event = self.alias(headers["webhook-id"])
        now = self.now
        # Looking up and connecting are a part of the attempt, and take up to five seconds.
        timeout = self.clients.shortest_timeout(name) - (0 if request.dialled is None else 5)
        began = next(at for at in (request.dialled, request.unread_since, now) if at is not None)
        limit = began + (lasts or timeout)
        self._open[self._numbers] = (self.life, now, limit, name, event)
        self.note(
            Arrived(
                at=now,
                life=self.life,
                number=self._numbers,
                registration=name,
                version=int(version),
                event=event,
                attempt=int(headers["x-attempt"]),
                body=checksum(request.body.replace(headers["webhook-id"].encode(), event.encode())),
                dialled=request.dialled,
                unread_since=request.unread_since,
                signed=self._is_signed(name, request),
                limit=limit,
            )
        )
        self.read("a body", request.body.decode())
        return self._numbers

    def answered(
        self, number: int, outcome: str, status: int = 0, wait: float = 0.0, decided: float | None = None
    ) -> None:
        """See :class:`tests.simulation.network.Observer`."""
        life, began, limit, name, event = self._open.pop(number)
        # A late answer may have come after the end of the attempt. If the gateway has not closed the
        # connection until then, it listens, and an answer that ends the delivery counts. Where a night passes
        # in few moves, its deadline, the answer and the next attempt may be due at once.
        is_late = (self.now if decided is None else decided) >= limit
        counts = not is_late or (outcome in FINAL and self.clock.strode_at < began)
        if self.is_over or life != self.life or not counts:
            outcome = "unknown"
        self.note(
            Answered(
                at=self.now,
                life=self.life,
                number=number,
                registration=name,
                event=event,
                outcome=outcome,
                status=status,
                wait=wait,
                is_late=is_late,
            )
        )

    def _is_signed(self, name: str, request: Request) -> bool:
        # Not the present time: the machine's clock may have jumped since.
        now = float(request.headers["webhook-timestamp"])
        for registration in self.keys.get(name, ()):
            keys = [verifying_key(secret.value) for secret in registration.secrets]
            try:
                verify(keys, request.headers, request.body, now=now)
            except SignatureInvalid:
                continue
            return True
        return False

    def read(self, where: str, text: str) -> None:
        """Look for secrets in something that people may read."""
        for secret, name in self.secrets.items():
            if secret in text:
                self.note(
                    Printed(
                        at=self.now,
                        life=self.life,
                        where=f"{where}: {text[:300]!r}"
                        if where.startswith("the file")
                        else f"{where}: {text[:300]}",
                        secret=name,
                    )
                )

    def alias(self, event: str) -> str:
        """Return an event's id, or a short name if the gateway made it."""
        if event.startswith("msg_"):
            return self._aliases.setdefault(event, f"m{len(self._aliases) + 1}")
        return event

    def without_paths(self, text: str) -> str:
        """Return a text without the folder of the run, which is another one each time."""
        return text.replace(str(self._folder), "")

    def unanswered(self, events: set[str], *, is_owed: bool = False) -> None:
        """Note a request that was not answered; see :class:`Unanswered`."""
        if not self.is_over:
            found = tuple(sorted(events))
            self.note(Unanswered(at=self.now, life=self.life, events=found, is_owed=is_owed))

    def raised(self, event: Event) -> None:
        """Note an operational event that plugins hear of."""
        if not self.disk.is_dead:
            found = event.data.get("registration") or ""
            about = self.names.get(found, found)
            self.note(
                Raised(at=self.now, life=self.life, event=self.alias(event.id), kind=event.kind, about=about)
            )

    def _dead(self, event: str, registration: str, reason: str) -> None:
        if not self.disk.is_dead:
            name = self.names.get(registration, registration)
            event = self.alias(event)
            self.note(Dead(at=self.now, life=self.life, event=event, registration=name, reason=reason))

    # The lives of the gateway.

    async def run(self) -> None:
        """Run the gateway through all its lives."""
        delivery = self.scenario.settings.delivery
        self.note(
            Rules(
                at=0.0,
                life=0,
                first_wait=delivery.unreachable_first_wait,
                retry_after_max=delivery.retry_after_max,
                alters=self.scenario.plugin > 0,
                reports=self.scenario.settings.operations.url is not None,
                drops=self.scenario.settings.limits.on_full == "drop_oldest",
            )
        )
        async with trio.open_nursery() as nursery:
            self.network.nursery = nursery
            nursery.start_soon(self.clock.run)
            LONG_WORK.set(LongWork(now=lambda: 0.0))
            chance = self.chance("lives")
            path = Path(self.scenario.settings.storage.path)
            path.parent.mkdir(mode=0o700)
            for life in range(1, self.scenario.lives + 2):
                self.life = life
                is_last = life == self.scenario.lives + 1
                path = await self._live(path, chance, is_last=is_last)
                await trio.sleep(chance.choice((0.001, 1, 100, 5000)))
            nursery.cancel_scope.cancel()

    async def _live(  # noqa: C901 -- one step a time
        self, path: Path, chance: random.Random, *, is_last: bool
    ) -> Path:
        """Start the gateway on a data file, and return the file for the next start."""
        scenario = self.scenario
        killed = trio.CancelScope()
        line = self.network.line()
        life = self.life

        def on_commit(began: float) -> None:
            self.note(Committed(at=self.now, life=life, began=began))

        def stall(seconds: float) -> None:
            self.history.inline_commits += 1
            self.clock.stall(seconds)

        def on_kill(moment: str) -> None:
            self.is_over = True
            line.cut()
            if self.api is not None:
                self.api.cut()
            killed.cancel()
            if disk.copy is not None and (path.parent / BACKUPS).exists():
                shutil.copytree(path.parent / BACKUPS, disk.copy.parent / BACKUPS)
            self.note(Ended(at=self.now, life=life, how="kill", moment=moment))

        disk = self.disk = Disk(
            path, self.chance(f"disk {life}"), on_commit, on_kill, self.clock.pause, stall
        )
        is_stopped = chance.random() < 0.3
        if not is_last:
            disk.latest = scenario.slow_disk
            if not is_stopped:
                disk.kill_in = 12 + int(chance.expovariate(1 / 25))
        if scenario.jumps and not is_last and chance.random() < 0.5:
            self.clock.offset += chance.choice((-90_000.0, -3600.0, -1.0, 1.0, 3600.0, 90_000.0))
        settings = self._settings_on(path)
        stopped_at: float | None = None
        apps: list[Application] = []
        has_api = not is_last and self.chance(f"api {life}").random() < scenario.api
        self.is_over, self.api = False, None
        with killed:
            async with (
                open_gateway(
                    settings,
                    clock=Clock(self.clock.wall),
                    hooks=self._hooks(calm=is_last),
                    resolve=line.resolve,
                    connect=line.connect,
                    hub=self._hub,
                    threads=disk,
                    prepare=lambda gateway: apps.append(create_app(gateway)) if has_api else None,
                ) as gateway,
                trio.open_nursery() as serving,
            ):
                self.gateway = gateway
                if apps:
                    self.api = Api(self, apps[0], self.chance(f"callers {life}"))
                    await serving.start(self.api.run)
                self.note(Started(at=self.now, life=life, offset=self.clock.offset))
                self.clients.learn()
                if is_last:
                    async with trio.open_nursery() as nursery:
                        if self.scenario.pull:
                            nursery.start_soon(partial(self.pullers.run, is_calm=True))
                        await self._calm_down(line)
                        nursery.cancel_scope.cancel()
                else:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._disturb, disk)
                        if self.scenario.pull:
                            nursery.start_soon(self.pullers.run)
                        await self.clients.run()
                        nursery.cancel_scope.cancel()
                self.is_over = True
                stopped_at = self.now
                if not disk.is_dead:
                    self.note(Ended(at=self.now, life=life, how="stop"))
                serving.cancel_scope.cancel()
        left_open = 0 if self.api is None else self.api.end()
        if stopped_at is not None and not disk.is_dead:
            grace = settings.server.shutdown_grace
            self.note(
                Stopped(
                    at=self.now,
                    life=life,
                    took=self.now - stopped_at,
                    # Requests have the time, and then attempts. On a disk that refuses, the store and what is
                    # noted last (a second) have more.
                    allowed=(grace if self.api is None else 2 * grace) + CLOSE_GRACE + 4 * disk.latest + 2,
                    open_connections=line.count_open() + left_open,
                )
            )
        return disk.copy or path

    def _settings_on(self, path: Path) -> Settings:
        """Return the settings of a life: the data file is a copy after a kill, and the master key changes."""
        settings, keys = self.scenario.settings, self.scenario.master_keys
        replace = msgspec.structs.replace
        storage = replace(
            settings.storage,
            path=str(path),
            backup_folder=str(path.parent / BACKUPS),
            master_key=keys[self.life % len(keys)] if keys else None,
            old_master_keys=keys,
        )
        return replace(settings, storage=storage)

    def _hooks(self, *, calm: bool) -> Hooks:
        plugin: object = QuietPlugin(self._dead, self.raised)
        if self.scenario.plugin:
            failing = 0.0 if calm else self.scenario.plugin
            plugin = SimulatedPlugin(self.chance(f"plugin {self.life}"), failing, self._dead, self.raised)
        manager = _MANAGER
        for former in manager.get_plugins():
            manager.unregister(former)
        manager.register(plugin, name="simulated")
        infos = [PluginInfo(name="simulated", source="here")]
        if self.scenario.connector:
            connector = SimulatedConnector(self, self.chance(f"connector {self.life}"), calm=calm)
            manager.register(connector, name="connector")
            infos.append(PluginInfo(name="connector", source="here"))
        return Hooks(LoadedPlugins(manager=manager, plugins=tuple(infos)))

    async def _disturb(self, disk: Disk) -> None:
        """Change the moods of receivers, names, the disk and the clock, until cancelled."""
        scenario, chance = self.scenario, self.chance(f"disturbance {self.life}")
        while True:
            host = chance.choice(list(self.network.hosts.values()))
            host.mood = chance.choice(scenario.moods)
            self._fault(f"{host.name} is {host.mood}")
            if chance.random() < 0.15:
                host.lookup = chance.choice(("found", "lost", "slow", "private"))
                self._fault(f"the name {host.name} is {host.lookup}")
            if chance.random() < 0.1:
                first, _, last = host.address.rpartition(".")
                host.address = f"{first}.{int(last) + 10 if int(last) < 200 else int(last)}"
            if chance.random() < scenario.disk_faults:
                disk.room = chance.choice((None, 0, 20_000))
                self._fault(f"the disk has {'all' if disk.room is None else disk.room} room")
            if scenario.jumps and chance.random() < 0.2:
                self.clock.offset += chance.choice((-7200.0, -1.0, 1.0, 7200.0))
                self._fault(f"the clock is off by {self.clock.offset:g} s")
            await trio.sleep(chance.choice((0.02, 1.0, 30.0, 600.0)))

    def _fault(self, what: str) -> None:
        self.note(Faulted(at=self.now, life=self.life, what=what))

    async def _calm_down(self, line: Line) -> None:
        """End all faults, wait until everything that can be delivered is, and note the state."""
        for host in self.network.hosts.values():
            host.mood, host.lookup = "healthy", "found"
        self._fault("everything works")
        await self.clients.resume_all()
        await self.clients.call_at_the_end()
        # First a day that is longer than blocking.SOON: what was emitted last is judged, too.
        # The longest wait for a receiver is an hour. What follows a head goes out at the registration's rate.
        for seconds, stride in ((45.0, 0.0), (7200.0, 3600.0), (30.0, 0.0), (CALM, CALM / 3), (60.0, 0.0)):
            with self.night(seconds, stride=stride):
                await trio.sleep_until(self.clock.until)
        # Each long move fails the attempts in flight, and a single slow connection takes its time.
        for _ in range(20):
            if not self.gateway.backlog.count:
                break
            await trio.sleep(60)
        await self.gateway.store.flush()
        self.meter(self.measure())
        gateway, limits = self.gateway, self.scenario.settings
        self._read_data_file(Path(gateway.settings.storage.path))
        rows = self._rows(Path(gateway.settings.storage.path))
        registrations = [one for name in self.scenario.instances for one in self.registrations_of(name)]
        for name in self.scenario.instances:
            if self.gateway.instances.find(name) is not None:
                self.note(
                    Logged(at=self.now, life=self.life, instance=name, events=tuple(await self._log_of(name)))
                )
        self.note(
            Final(
                at=self.now,
                life=self.life,
                rows=tuple(rows),
                complete=limits.storage.retention >= 30 * DAY,
                registrations=tuple(self.name_of(one) for one in registrations if one.enabled),
                backlog=self._counted(),
                memory=gateway.metrics.memory(),
                lent=gateway.outbound.pools.statistics(1).lent,
            )
        )

    def _read_data_file(self, path: Path) -> None:
        """Look for secrets in the data file, if its records are encrypted."""
        if self.scenario.master_keys:
            for file in (path, path.with_name(f"{path.name}-wal")):
                if file.exists():
                    self.read(f"the file {file.name}", file.read_bytes().decode("latin-1"))

    def _counted(self) -> tuple[tuple[str, int], ...]:
        counted = ((self.names.get(key, key), n) for key, n in self.gateway.backlog.registrations() if n)
        return tuple(sorted(counted))

    def registrations_of(self, instance: str) -> list[Registration]:
        if self.gateway.instances.find(instance) is None:
            return []
        return self.gateway.registrations.of_instance(instance)

    def name_of(self, registration: Registration) -> str:
        """Return the name of a registration in this run, and remember it."""
        name = f"{PULLED}-pull-1" if registration.is_pulled else registration.url.split("/")[3]
        self.names[registration.id] = name
        known = self.keys.setdefault(name, [])
        if registration not in known:
            known.append(registration)
        for secret in registration.secrets:
            self.secrets[secret.value] = f"a secret of {name}"
        return name

    @contextmanager
    def night(self, seconds: float, *, stride: float) -> Iterator[None]:
        """Let time pass in long moves during a block."""
        self.clock.until, self.clock.stride = self.now + seconds, stride
        if stride:
            self._fault(f"the clock moves by {stride:g} s or more")
        try:
            yield
        finally:
            self.clock.stride = 0.0
            if stride and not self.is_over:
                self._fault("the clock moves as usual")

    async def rest(self) -> None:
        """Note the figures while nobody emits: then the gateway's are those of the data file."""
        if self.api is not None:
            await self.api.settle()
        await self.gateway.store.flush()
        self.meter(self.measure(is_at_rest=True))

    def meter(self, pending: Counter[str]) -> None:
        """Note what the metrics say, and what the data file has: ``pending``, of each registration."""
        found: Counter[str] = Counter()
        registrations: dict[str, int] = {}
        metrics = self.gateway.metrics
        for family in metrics.families(finish(survey(metrics.sources))):
            for name, labels, value, *_ in family.samples:
                if name == "hookgw_registration_backlog_deliveries":
                    key = labels["registration"]
                    registrations[self.names.get(key, key)] = int(value)
                elif name in FIGURES and "CONNECTION_UPDATE" not in labels.values():  # a connector's own
                    found["".join((name, *labels.values())) if name in BY_LABEL else name] += int(value)
        self.note(
            Metered(
                at=self.now,
                life=self.life,
                accepted=found["hookgw_events_accepted_total"],
                delivered=found["hookgw_deliveries_totaldelivered"],
                dropped=found["hookgw_deliveries_totaldropped"],
                taken=found["hookgw_attempts_totaldelivered"],
                backlog=found["hookgw_backlog_deliveries"],
                registrations=tuple(sorted(registrations.items())),
                pending=tuple(sorted(pending.items())),
            )
        )

    def _pending(self) -> Counter[str]:
        with closing(sqlite3.connect(self.gateway.settings.storage.path)) as connection:
            found = connection.execute(
                "SELECT n.name, count(*) FROM deliveries d JOIN names n ON n.number = d.registration"
                " WHERE d.state = 'pending' GROUP BY d.registration"
            ).fetchall()
        return Counter({self.names.get(key, key): count for key, count in found})

    def measure(self, *, is_at_rest: bool = False) -> Counter[str]:
        """Note the figures of the gateway. Return what the data file has pending, of each registration."""
        settings, gateway = self.scenario.settings, self.gateway
        pending = self._pending()
        pools = gateway.outbound.pools
        self.note(
            Measured(
                at=self.now,
                life=self.life,
                pending=tuple(sorted(pending.items())),
                limit=settings.limits.registration_deliveries,
                counted=self._counted() if is_at_rest else None,
                total=pending.total() - pending[OPERATIONS],  # those are stored beyond any limit
                total_limit=settings.limits.deliveries,
                memory=gateway.metrics.memory(),
                memory_limit=settings.delivery.memory,
                lent=max((len(pool.lent) for pool in pools.pools.values()), default=0),
                lent_limit=settings.delivery.host_connections,
            )
        )
        return pending

    async def _log_of(self, instance: str) -> list[str]:
        found: list[str] = []
        query = EventQuery(instance=instance, is_oldest_first=True, limit=100)
        while True:
            page = await self.gateway.store.list_events(query)
            found += [self.alias(one.event.id) for one in page.events]
            if page.cursor is None:
                return found
            query = msgspec.structs.replace(query, cursor=page.cursor)

    def _rows(self, path: Path) -> Iterator[Row]:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute(
                "SELECT d.seq, e.id, n.name, d.state, d.position, d.attempts, d.reason FROM deliveries d"
                " JOIN events e ON e.seq = d.event JOIN names n ON n.number = d.registration ORDER BY d.seq"
            ).fetchall()
        for seq, event, registration, state, position, attempts, reason in found:
            name = self.names.get(registration, registration)
            yield Row(seq, self.alias(event), name, state, position, attempts, reason or "")


def simulate(seed: int, folder: Path, history: History, *, hub: bool = True) -> None:
    """Run a seed.

    Args:
        seed: any number.
        folder: an empty one, on a fast file system.
        history: gets what happens.
        hub: whether one epoll watches all sockets.

    Raises:
        Exception: a fault of the gateway has ended it, or the simulator has one.
    """
    world = World(seed, folder, history, hub=hub)
    chance = world.chance("ids")
    random.seed(seed)
    hookgw.records.events.random_ids.seed(seed)
    token = random_source.set(chance.randbytes)
    structlog.configure(processors=[partial(_hear, world)], cache_logger_on_first_use=False)
    try:
        with (
            mock.patch.object(Routing, "url_rule_class", CompiledOnce),
            # Of replays and backfills: most of a run would be a single one.
            mock.patch.object(steps, "REPLAY_STEP", world.scenario.step),
            # Few commits in a row are quick here.
            mock.patch.object(inline, "QUICK_COMMITS", 1),
            mock.patch.object(trio, "sleep", world.clock.sleep),
            order_of_tasks(_Shuffler(seed)),
        ):
            trio.run(world.run, clock=world.clock)
    finally:
        random_source.reset(token)
        structlog.reset_defaults()


class _Shuffler(random.Random):
    """Decides the order of tasks that can run at the same moment. Most often there is only one."""

    def shuffle(self, x: MutableSequence[object]) -> None:
        if len(x) > 1:
            super().shuffle(x)


def _hear(world: World, _logger: object, _method: str, entry: structlog.typing.EventDict) -> str:
    if entry.get("exc_info"):
        entry = structlog.processors.format_exc_info(None, "", dict(entry))
    world.read("the log", repr(entry))
    raise structlog.DropEvent
