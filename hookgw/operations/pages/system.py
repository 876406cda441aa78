"""The system, for holders of a global key: version, settings, storage, plugins, audit and log."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec
from quart import Response, request

from hookgw._version import __version__
from hookgw.core.recent_log import recent_log
from hookgw.kernel.errors import HookgwError, StorageUnavailable
from hookgw.kernel.language import N_
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import MASK, with_masked_user
from hookgw.records.api_keys import Right
from hookgw.records.audit import AuditEntry
from hookgw.records.told_sentences import sentence_text
from hookgw.site.site import NavEntry, Page, Site
from hookgw.store import AuditQuery

MOST_ENTRIES = 20
"""Entries of the audit on the page."""
_SECRET_SETTINGS = frozenset(
    {"global_key", "master_key", "old_master_keys", "key_password", "secret", "headers", "options", "proxy"}
)


class SystemPage(Page):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._started = site.gateway.clock.steady()
        site.nav.append(NavEntry(N_("System"), "/system", Right.OPERATE, is_global=True))
        site.add("/system", self._page, Right.OPERATE)
        site.add("/live/log", self.live, Right.OPERATE)
        site.add("/system/backup", self.back_up, Right.OPERATE, "POST", page="/system")

    async def back_up(self) -> Response:
        await self._site.form()
        try:
            made = await self._gateway.backups.create(None)
        except HookgwError as error:
            return await self._page(error=error)
        return await self._page(backup=made.name, is_running=made.job.is_running)

    async def _page(
        self, *, error: HookgwError | None = None, backup: str | None = None, is_running: bool = False
    ) -> Response:
        gateway, node = self._gateway, self._gateway.node
        cursor = request.args.get("cursor") or None
        page = await gateway.audit.list(AuditQuery(limit=MOST_ENTRIES, cursor=cursor))
        disk = None
        with suppress(StorageUnavailable):  # a disk that fails is to be seen here, too
            disk = await gateway.store.disk_space()
        plugins = gateway.hooks.plugins()
        failing = {task.plugin: task.reason for task in gateway.restarts.failing()}
        uptime = gateway.clock.steady() - self._started  # the machine's clock may have been corrected
        return await self._site.render(
            "system.html",
            error=error,
            backup=backup,
            is_running=is_running,
            has_folder=bool(gateway.settings.storage.backup_folder),
            running_version=__version__,
            started=gateway.clock.wall() - uptime,
            uptime=uptime,
            settings=list(_flat(gateway.settings)),
            disk=disk,
            storage=gateway.settings.storage,
            backlog=gateway.backlog.size,
            entries=[(entry, _who(entry), _what(entry)) for entry in page.entries],
            older=page.cursor,
            is_first=cursor is None,
            node=node.label,
            nodes=[one.name for one in node.view.nodes],
            # Of this node, although the next request may come to another one.
            of_node=f"node={quote(node.name)}" if node.is_shared else "",
            plugins=[(plugin, failing.get(plugin.name)) for plugin in plugins],
            log=await self._log(),
        )

    async def live(self) -> Response:
        return self._streams.open("log", self._log)

    async def _log(self) -> str:
        return await self._site.fragment("log.html", lines=recent_log.lines())


def _flat(settings: msgspec.Struct, prefix: str = "") -> list[tuple[str, str]]:
    """Return settings as pairs of path and value, without secrets."""
    found: list[tuple[str, str]] = []
    for name in settings.__struct_fields__:
        value: Any = getattr(settings, name)
        path = f"{prefix}{name}"
        if isinstance(value, msgspec.Struct):
            found += _flat(value, f"{path}.")
        elif name == "global_webhooks":
            found.append((path, _("{n} of them", n=len(value))))
        elif name in _SECRET_SETTINGS and value:
            found.append((path, MASK))
        elif isinstance(value, str):
            found.append((path, with_masked_user(value)))  # a URL may have a password
        else:
            shown = list(map(str, value)) if isinstance(value, tuple) else value
            is_plain = isinstance(shown, str | int | float) and not isinstance(shown, bool)
            text = str(shown) if is_plain else msgspec.json.encode(shown, enc_hook=str).decode()
            found.append((path, text))
    return found


def _who(entry: AuditEntry) -> str:
    actor = entry.actor
    name = _("key {name}", name=actor.name) if actor.kind == "key" else actor.name or actor.kind
    return ", ".join(part for part in (actor.person, name, actor.address) if part)


def _what(entry: AuditEntry) -> str:
    changed = ", ".join(change.field for change in entry.changes)
    reason = sentence_text(entry.details.get("reason") or "")
    return "; ".join(filter(None, (changed, entry.details.get("problem"), reason)))
