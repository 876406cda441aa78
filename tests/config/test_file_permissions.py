"""Files that others can write to are refused, with the command that fixes it; exposed secrets are found."""

import errno
import grp
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from tests.public.config import (
    PluginsSettings,
    everything_in,
    exposed_secrets,
    first_trouble,
    is_own_group,
    replaceable_by_others,
    trusted_users,
    way_to_hide,
    writable_by_others,
)
from tests.public.kernel import StartError
from tests.public.plugins import load_plugins
from tests.public.sqlite import open_database
from tests.support.file_modes import without_modes

US = os.geteuid()


def verdict(path: Path, *, trusted: frozenset[int] = frozenset({US}), own: bool = False) -> str | None:
    return writable_by_others(path, trusted=trusted, own_group=lambda _gid, _uid: own)


@pytest.mark.parametrize(
    ("mode", "own", "fix"),
    [
        (0o700, False, None),
        (0o755, False, None),
        (0o775, True, None),
        (0o775, False, "chmod g-w"),
        (0o757, True, "chmod o-w"),
        (0o777, False, "chmod o-w"),
    ],
)
def test_who_may_write(tmp_path: Path, mode: int, own: bool, fix: str | None) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    folder.chmod(mode)
    found = verdict(folder, own=own)
    if fix is None:
        assert found is None
    else:
        assert f"{fix} '{folder}'" in (found or "")


def test_a_shared_folder_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert verdict(tmp_path) == (
        f"{tmp_path} is a shared folder. Use a folder of its own, such as {tmp_path}/hookgw."
    )


def test_the_group_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    assert f"the group {grp.getgrgid(tmp_path.stat().st_gid).gr_name}." in (verdict(tmp_path) or "")


@pytest.mark.parametrize("kind", ["folder", "file", "folder above"])
def test_where_no_file_has_a_mode_of_its_own_no_chmod_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    (file := folder / "file").touch()
    folder.chmod(0o777)
    file.chmod(0o666)
    looked_at = {"folder": folder, "file": file, "folder above": file}[kind]
    found = replaceable_by_others if kind == "folder above" else verdict
    assert "Run: chmod o-w" in (found(looked_at) or "")

    without_modes(monkeypatch)
    said = found(looked_at) or ""
    assert "every user" in said
    assert "chmod changes nothing there" in said
    assert "such as a volume of Docker" in said
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_files_of_other_users_are_not_trusted(tmp_path: Path) -> None:
    found = verdict(tmp_path, trusted=frozenset({US + 1})) or ""
    name = pwd.getpwuid(US).pw_name
    assert f"belongs to {name}" in found
    assert f"chown {name} {tmp_path}" in found


def test_root_ourselves_and_the_installer_are_trusted() -> None:
    assert {0, US} <= trusted_users()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users, with their first groups, and groups, with their further members."""
    users = {1001: ("anna", 1001), 1002: ("ben", 1001), 1003: ("team", 1003)}
    users |= {1005: ("dora", 1005), 1006: ("eva", 1001), 33: ("www-data", 33), 65_534: ("nobody", 2000)}
    groups = {1001: ("anna", []), 1003: ("team", ["ben"]), 1004: ("volume", ["anna", "root"])}
    groups |= {1005: ("dora", ["dora"]), 1006: ("eva", [])}

    def user(uid: int) -> SimpleNamespace:
        return SimpleNamespace(pw_uid=uid, pw_name=users[uid][0], pw_gid=users[uid][1])

    def group(gid: int) -> SimpleNamespace:
        return SimpleNamespace(gr_name=groups[gid][0], gr_mem=groups[gid][1])

    monkeypatch.setattr(pwd, "getpwuid", user)
    monkeypatch.setattr(pwd, "getpwall", lambda: [*map(user, users)])
    monkeypatch.setattr(grp, "getgrgid", group)
    is_own_group.cache_clear()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("gid", "uid", "own"),
    [
        (1005, 1005, True),
        (1001, 1001, False),  # ben is in anna's group, which is his first one
        (1001, 1002, False),
        (1003, 1003, False),  # somebody else is in it
        (1003, 1001, False),
        (1006, 1006, False),  # not eva's first one
        (7, 7, True),  # unknown to the system: the numbers stand for the names
        (7, 8, False),
    ],
)
def test_a_group_of_ones_own(gid: int, uid: int, own: bool) -> None:
    assert is_own_group(gid, uid) is own
    is_own_group.cache_clear()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("gid", "own"),
    [
        (2000, True),  # without a name, as of a volume
        (1004, True),  # only this process's user and root are in it
        (33, True),  # of the system
        (1003, False),  # ben is in it
        (1001, False),  # it is ben's first group
        (2001, False),  # this process is not in it
    ],
)
def test_a_group_of_this_process_without_other_people(
    monkeypatch: pytest.MonkeyPatch, gid: int, own: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    monkeypatch.setattr(os, "getegid", lambda: 1001)
    monkeypatch.setattr(os, "getgroups", lambda: [33, 1003, 1004, 2000])
    assert is_own_group(gid, 0) is own
    is_own_group.cache_clear()


def test_users_and_groups_without_a_name_are_shown_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_number: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(grp, "getgrgid", unknown)
    assert f"belongs to {US}," in (verdict(tmp_path, trusted=frozenset()) or "")
    tmp_path.chmod(0o770)
    assert f"the group {tmp_path.stat().st_gid}." in (verdict(tmp_path) or "")


def test_a_folder_above_that_is_open_to_all(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    inner = open_folder / "deep" / "inner"
    inner.mkdir(parents=True)
    assert replaceable_by_others(inner) is None
    open_folder.chmod(0o1777)
    assert replaceable_by_others(inner) is None
    open_folder.chmod(0o777)
    assert f"chmod o-w {open_folder}" in (replaceable_by_others(inner) or "")
    assert f"chmod o-w {open_folder}" in (first_trouble([inner]) or "")


def test_everything_in_a_folder_is_looked_at_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.py").touch()
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    found = [str(path.relative_to(tmp_path)) for path in everything_in(tmp_path)]
    assert found == [".", "a", "a/b", "a/b/c.py", "dangling"]
    assert first_trouble(everything_in(tmp_path)) is None


# The data file


@pytest.mark.parametrize("name", ["", "hookgw.db", "hookgw.db-wal", "hookgw.db.lock"])
def test_a_data_file_that_others_can_write_to_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "hookgw.db").touch()
    open_to_all = folder / name
    open_to_all.touch()
    open_to_all.chmod(0o777 if open_to_all.is_dir() else 0o666)
    refused = pytest.raises(StartError, match=f"storage.path: .*chmod o-w {open_to_all}$")
    with refused, open_database(folder / "hookgw.db"):
        pass
    assert (folder / "hookgw.db").stat().st_size == 0


@pytest.mark.parametrize(("path", "other"), [("x.db", "hookgw/x.db"), (".", "hookgw/hookgw.db")])
def test_a_data_file_in_a_shared_folder_gets_a_folder_of_its_own(
    tmp_path: Path, path: str, other: str
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(StartError) as refused, open_database(folder / path):
        pass
    assert str(refused.value).endswith(
        f"Put the data file into a folder of its own, such as {folder / other}."
    )
    assert "chmod" not in str(refused.value)
    assert list(folder.iterdir()) == []
    with open_database(folder / other):
        pass


def test_a_readable_data_file_is_restricted_at_start(tmp_path: Path) -> None:
    path = tmp_path / "hookgw.db"
    path.touch()
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    with open_database(path):
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("refuses", [True, False])
def test_a_readable_data_file_whose_mode_cannot_change_is_used_and_not_called_restricted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    path = tmp_path / "hookgw.db"
    path.touch()
    path.chmod(0o644)

    def keep_mode(file: Path, mode: int) -> None:
        if refuses:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(file))

    monkeypatch.setattr(Path, "chmod", keep_mode)
    with capture_logs() as logs, open_database(path):
        pass
    said = [line["event"] for line in logs if line.get("file") == str(path)]
    assert said == ["others can read the file, and its file system keeps no modes"]


def test_the_folder_behind_a_link_is_what_counts(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "hookgw.db").touch()
    real.chmod(0o777)
    (tmp_path / "link.db").symlink_to(real / "hookgw.db")
    refused = pytest.raises(StartError, match=f"chmod o-w {real}$")
    with refused, open_database(tmp_path / "link.db"):
        pass


# Plugins


def load(base: Path) -> None:
    load_plugins(PluginsSettings(first_party=False), base=base)


@pytest.mark.parametrize("name", [".", "audit.py", "crm", "crm/__init__.py", "crm/template.txt"])
def test_plugins_that_others_can_write_to_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "plugins"
    (folder / "crm").mkdir(parents=True)
    for file in ("audit.py", "crm/__init__.py", "crm/template.txt"):
        (folder / file).write_text("raise RuntimeError('it ran')" if file.endswith("py") else "")
    open_to_all = folder / name
    open_to_all.chmod(open_to_all.stat().st_mode | 0o002)
    with pytest.raises(
        StartError, match=rf"plugins\.folders: .*would run as hookgw, .*chmod o-w {open_to_all}"
    ):
        load(tmp_path)


def test_a_checkout_made_under_umask_002_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "audit.py").write_text("")
    for path in everything_in(folder):
        path.chmod(path.stat().st_mode | 0o020)
    monkeypatch.setattr("hookgw.config.file_permissions.is_own_group", lambda _gid, _uid: True)
    load(tmp_path)
    monkeypatch.setattr("hookgw.config.file_permissions.is_own_group", lambda _gid, _uid: False)
    with pytest.raises(StartError, match=f"chmod g-w {folder}$"):
        load(tmp_path)


TEXT = """
auth: {global_key: a-key-in-the-file}
operations:
  url: https://user:password@ops.example/x
  secret: "${OPS_SECRET}"
  headers: {authorization: Bearer x, x-y: "${Y:-}"}
global_webhooks:
  - {url: "https://example.org/a@b", webhook: {headers: {x-key: k}}, secret: whsec_x}
storage: {master_key: null, old_master_keys: [one, "${TWO}"], master_key_file: key}
server: {tls: {key: key.pem}}
plugins:
  options:
    evolution: {api_key: k, accessToken: "${TOKEN}", public_key: p, integrations: [secret]}
alerts: {channels: [{smtp_password: p}, {bot_token: t}]}
"""
EXPOSED = [
    "auth.global_key",
    "operations.url",
    "operations.headers.authorization",
    "global_webhooks[0].webhook.headers.x-key",
    "global_webhooks[0].secret",
    "storage.old_master_keys[0]",
    "plugins.options.evolution.api_key",
    "alerts.channels[0].smtp_password",
    "alerts.channels[1].bot_token",
]


@pytest.mark.parametrize(("mode", "found"), [(0o644, EXPOSED), (0o604, EXPOSED), (0o640, []), (0o600, [])])
def test_secrets_that_others_can_read(tmp_path: Path, mode: int, found: list[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT)
    file.chmod(mode)
    assert exposed_secrets(file) == found


@pytest.mark.parametrize(
    ("is_owner", "in_group", "mode", "way"),
    [
        (True, False, 0o644, "chmod o-r "),
        (False, True, 0o644, "chmod o-r "),
        (False, True, 0o604, "give the file a group of this process, with chgrp and (under systemd)"),
        (False, False, 0o644, "give the file a group of this process, with chgrp and (under systemd)"),
    ],
)
def test_a_file_is_hidden_from_others_and_not_from_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_owner: bool, in_group: bool, mode: int, way: str
) -> None:
    file = tmp_path / "a config.yaml"
    file.touch()
    file.chmod(mode)
    group = file.stat().st_gid
    monkeypatch.setattr(os, "geteuid", lambda: US if is_owner else US + 1)
    monkeypatch.setattr(os, "getegid", lambda: group if in_group else group + 1)
    monkeypatch.setattr(os, "getgroups", list)
    found = way_to_hide(file)
    assert way in found
    assert found.endswith(f"o-r '{file}'")


def test_a_file_that_cannot_be_hidden_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.yaml"
    file.touch(0o777)
    without_modes(monkeypatch)
    assert way_to_hide(file).startswith("chmod changes nothing there")
    assert "from the environment" in way_to_hide(file)


def test_the_example_exposes_no_secret() -> None:
    assert exposed_secrets(Path(__file__).parents[2] / "config.example.yaml") == []
