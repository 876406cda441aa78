"""Watches the gateway, and sends what is to be told."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import structlog
import trio

from hookgw import Event, HookgwError, Invalid, PluginGateway, Problem, ProblemKind
from hookgw.records.registrations import GLOBAL_INSTANCE

from .channels import Refused, send
from .options import Rule, check_rule, read_options, read_rule
from .watch import Line, Notice, State, advance, failed, lost_nodes

LOOK_EVERY = 15.0
"""Seconds between two looks at the problems."""

NOTICES_AT_ONCE = 8

RULE = "rule "
"""Records with a rule of the dashboard begin with this, and end with its id."""
STATE = "state "
"""Records with parts of what is remembered begin with this; :mod:`.watch` describes it."""
PART = 250_000
"""Characters of a part. In a large storm, all of it is more than one record takes: 1 MiB, as JSON."""
DEAD = "dead "
"""Records with the dead letters of a minute begin with this: of one process, and later of all."""
JOINED_AFTER = 3600.0
"""Seconds after which the dead letters of ten minutes, of all processes, are one record: seven days have
10,080 minutes, and a plugin may have 10,000 records."""

logger = structlog.get_logger("hookgw.alerts")


class Alerts:
    """The work of the plugin, for one gateway."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = read_options(options)
        # Dead letters by minute and instance, or webhook of the configuration, until they are stored; and
        # under which name.
        self._dead: dict[int, Counter[str]] = {}
        self._process = ""
        self._left_out: set[str] = set()
        # What waits, and why, as it was logged last.
        self._waits: dict[str, str] = {}

    def reconfigured(self, options: dict[str, Any]) -> Callable[[], None]:
        """Check changed options, and return what puts them into use."""
        found = read_options(options)

        def use() -> None:
            self.options = found

        return use

    # On every node.

    def observe(self, event: Event) -> None:
        """Count dead letters."""
        if event.kind == "DELIVERY_DEAD":
            data = msgspec.json.decode(event.data_json)
            minute, name = int(event.time // 60), data["instance"] or ""
            if name == GLOBAL_INSTANCE:
                name += f" {data['label']}"
            self._dead.setdefault(minute, Counter())[name] += data["count"]

    async def count(self, gateway: PluginGateway) -> None:
        """Store what was counted, for the node that watches, until cancelled."""
        self._process = uuid.uuid4().hex[:12]
        try:
            while True:
                await trio.sleep(LOOK_EVERY)
                await self._store_counts(gateway)
        finally:
            with trio.CancelScope(deadline=trio.current_time() + 1, shield=True):
                await self._store_counts(gateway)

    async def _store_counts(self, gateway: PluginGateway) -> None:
        if not self._dead:
            return
        dead, self._dead = self._dead, {}
        try:
            known = await gateway.records.load()
            changes = {}
            for minute, counts in dead.items():
                key = f"{DEAD}{minute} {self._process}"
                changes[key] = counts + Counter(known.get(key) or {})
            await gateway.records.put(changes)
            self._wait("dead letters wait to be counted", "")
        except HookgwError as error:
            self._wait("dead letters wait to be counted", str(error))
            for minute, counts in dead.items():
                self._dead[minute] = self._dead.get(minute, Counter()) + counts

    def _wait(self, what: str, reason: str) -> None:
        if reason and reason != self._waits.get(what):  # once: an outage may last for a night
            logger.warning(what, reason=reason)
        self._waits[what] = reason

    # On one node.

    async def watch(self, gateway: PluginGateway) -> None:
        """Look at the problems and send notices, until cancelled."""
        while True:
            try:
                await self._look(gateway)
                self._wait("alerts wait for the storage", "")
            except HookgwError as error:  # of the storage: what is to be told waits for it
                self._wait("alerts wait for the storage", str(error))
            await trio.sleep(LOOK_EVERY)

    async def _look(self, gateway: PluginGateway) -> None:
        options, records = self.options, await gateway.records.load()
        if not options.channels:
            return
        report = await gateway.problems()
        now = report.at
        state, rules = state_of(records), self.rules(records)
        problems = [*report.problems, *lost_nodes(state, report.nodes, now)]
        found = {
            rule.id: [
                problem
                for problem in (*problems, *_dead_letters(rule, records, now))
                if rule.concerns(problem, tags_of(gateway, problem))
            ]
            for rule in rules
        }
        advance(state, rules, found, options, now)
        await _store(gateway, records, _records_of(state, records))
        due = [one for one in state.notices.values() if one.due <= now]
        if due:
            await self._send(gateway, state, due[:NOTICES_AT_ONCE], now)
            await _store(gateway, records, _records_of(state, records))
        longest = max((rule.within for rule in rules), default=0.0)
        await _store(gateway, records, _joined(records, now, longest))

    async def _send(self, gateway: PluginGateway, state: State, due: list[Notice], now: float) -> None:
        async def send_one(notice: Notice) -> None:
            while True:
                name = notice.to[notice.tried]
                try:
                    await self.send(gateway, name, notice)
                except Refused as error:
                    logger.warning("a channel does not take an alert", channel=name, reason=str(error))
                    if error.in_part:
                        break
                    failed(state, notice, now, str(error))
                    if not notice.tried:
                        return
                else:
                    logger.info("alert sent", channel=name, alert=notice.alert, state=notice.state)
                    break
            del state.notices[notice.id]

        async with trio.open_nursery() as nursery:
            for notice in due:
                nursery.start_soon(send_one, notice)

    async def send(self, gateway: PluginGateway, name: str, notice: Notice) -> None:
        """Send a notice through a channel. Raises ``Refused``."""
        channel = self.options.channels.get(name)
        if channel is None:
            raise Refused(f"There is no channel {name!r} any more.")
        try:
            await send(gateway, channel, notice, self.options)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 -- the next channel must be told all the same
            # Such as a password that SMTP cannot carry, or a line break in a token. The error may show it.
            what = type(error).__name__
            raise Refused(
                f"Its values cannot be sent ({what}): look for line breaks, and letters that are not ASCII."
            ) from None

    def rules(self, records: dict[str, Any]) -> list[Rule]:
        """Return the rules of the file, and those of the dashboard that still fit the channels."""
        found = [*self.options.rules]
        for _, rule, reason in self.rules_of_dashboard(records):
            if reason:
                self._leave_out(reason)
            else:
                found.append(rule)
        return found

    def rules_of_dashboard(self, records: dict[str, Any]) -> Iterator[tuple[str, Rule, str]]:
        """Yield the rules of the dashboard: the record's key, the rule, and why it is left out, if it is."""
        for key in sorted(key for key in records if key.startswith(RULE)):
            try:
                rule = read_rule(records[key])
            except ValueError as error:  # of another version
                self._leave_out(str(error))
                continue
            try:
                check_rule(rule, self.options)
            except ValueError as error:
                yield key, rule, str(error)
            else:
                yield key, rule, ""

    def _leave_out(self, reason: str) -> None:
        if reason not in self._left_out:  # once: the rules are read at each look
            self._left_out.add(reason)
            logger.warning("a rule of the dashboard is left out", reason=reason)

    async def test(self, gateway: PluginGateway, names: list[str]) -> dict[str, str | None]:
        """Send a test through channels, all by default; return why one has failed, or ``None``, by name."""
        chosen = names or [*self.options.channels]
        for name in chosen:
            if name not in self.options.channels:
                known = ", ".join(self.options.channels) or "none"
                raise Invalid.of(
                    "alerts.no_channel",
                    "There is no channel {name!r}. The channels are: {known}.",
                    name=name[:64],
                    known=known,
                )
        results: dict[str, str | None] = {}

        async def test_one(name: str) -> None:
            notice = _test_notice(name)
            try:
                await self.send(gateway, name, notice)
            except Refused as error:
                results[name] = str(error)
            else:
                results[name] = None

        async with trio.open_nursery() as nursery:
            for name in chosen:
                nursery.start_soon(test_one, name)
        return {name: results[name] for name in chosen}


def state_of(records: dict[str, Any]) -> State:
    """Return what is remembered."""
    text = "".join(records[key] for key in sorted(records) if key.startswith(STATE))
    return msgspec.json.decode(text or "{}", type=State)


def _records_of(state: State, records: dict[str, Any]) -> dict[str, Any]:
    """Return a state as records; ``None`` for former parts."""
    text = msgspec.json.encode(state).decode()
    parts = {f"{STATE}{at:09}": text[at : at + PART] for at in range(0, len(text), PART)}
    return dict.fromkeys(key for key in records if key.startswith(STATE)) | parts


def _joined(records: dict[str, Any], now: float, longest: float) -> dict[str, Any]:
    """Return the changes that join old records of dead letters; ``None`` removes a record.

    Records that no rule asks for any more are removed as well.
    """
    joined: dict[str, Any] = {}
    for key, counted in records.items():
        if key.startswith(DEAD):
            last = int(key.split()[1]) // 10 * 10 + 9
            if last * 60 < now - JOINED_AFTER:
                joined.setdefault(key, None)
                if last * 60 >= now - longest - 3600:
                    of_all = f"{DEAD}{last} all"
                    joined[of_all] = Counter(joined.get(of_all)) + Counter(counted)
    return joined


async def _store(gateway: PluginGateway, records: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Store what differs from the records, and bring them up to date."""
    changes = {key: value for key, value in wanted.items() if value != records.get(key)}
    if changes:
        await gateway.records.put(changes)
        records.update(changes)


def _dead_letters(rule: Rule, records: dict[str, Any], now: float) -> list[Problem]:
    """Return a problem for each instance, and webhook of the configuration, with so many dead letters."""
    if "dead_letters" not in rule.kinds:
        return []
    counts: Counter[str] = Counter()
    for key, counted in records.items():
        if key.startswith(DEAD) and int(key.split()[1]) * 60 > now - rule.within - 60:
            counts += Counter(counted)
    return [
        Problem(
            ProblemKind.DEAD_LETTERS,
            f"{count:,} deliveries became dead letters within {rule.within}.",
            instance=instance,
            label=label,
        )
        for (instance, _, label), count in ((name.partition(" "), count) for name, count in counts.items())
        if count >= rule.count
    ]


def tags_of(gateway: PluginGateway, problem: Problem) -> Mapping[str, str]:
    """Return the tags of the instance that has a problem; none if it is no instance's."""
    instance = gateway.instances.find(problem.instance)
    return {} if instance is None else instance.tags


def _test_notice(channel: str) -> Notice:
    now = time.time()
    why = f"This is a test of the channel {channel}. Nothing is wrong."
    return Notice(
        id=f"test_{now:.6f}".replace(".", "_"),
        state="raised",
        alert="test",
        rule="test",
        on="test",
        host="",
        at=now,
        since=now,
        count=1,
        lines=[Line("", "", "", "", "", why, None)],
        to=(channel,),
    )
