"""``hookgw profile``: the gateways that a person works with."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from hookgw.command.client import Client
from hookgw.command.failure import Failed
from hookgw.command.group import CommandGroup
from hookgw.command.output import Column, say, show_table, shown_as_json, table_options
from hookgw.command.profiles import (
    NoHome,
    Profile,
    Profiles,
    complete_profiles,
    load_profiles,
    profiles_file,
    save_profiles,
)
from hookgw.command.target import check_key, read_secret_line
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import with_masked_user


@click.group(cls=CommandGroup)
def profile() -> None:
    """Name gateways, with their addresses and keys.

    They are in ~/.config/hookgw/profiles.yaml ($XDG_CONFIG_HOME is respected), which only you can read.
    Commands use the profile of --profile, of HOOKGW_PROFILE, or of `hookgw profile use`.
    """


name_argument = click.argument("name", shell_complete=complete_profiles)


@profile.command()
@name_argument
@click.option("--url", required=True, help="Address of hookgw: an http(s) URL, or unix:/path.")
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that contains the key; the profile keeps its path. Without it, the command asks for the key.",
)
@click.option("--no-key", is_flag=True, help="Keep no key: HOOKGW_KEY or an option gives it.")
@click.option("--yes", is_flag=True, help="Replace a profile of this name without asking.")
def add(name: str, url: str, key_file: Path | None, no_key: bool, yes: bool) -> None:
    """Add a profile, or replace one.

    Asks for the key, or reads it from standard input. The first profile is used from then on.
    """
    if key_file is not None and no_key:
        raise click.UsageError(_("Give either --key-file or --no-key."))
    with Client(url, None):  # refuses anything but an address
        pass
    file = profiles_file()
    stored = load_profiles(file)
    if name in stored.profiles and not yes:
        click.confirm(_("Replace the profile {name!r}?", name=name), abort=True, err=True)
    key = None
    if key_file is None and not no_key:
        key = check_key(read_secret_line("Key"), "standard input")
        if not key:
            raise Failed(_("There is no key on standard input. For a profile without a key, add --no-key."))
    path = None if key_file is None else str(key_file.expanduser().absolute())
    profiles = {**stored.profiles, name: Profile(url=url, key=key, key_file=path)}
    use = stored.use if stored.use in profiles else name
    save_profiles(file, Profiles(use=use, profiles=profiles))
    say(_("Added {name!r} to {file}.", name=name, file=file))
    if use == name:
        say(_("Commands use it, unless an option or the environment says otherwise."))
    else:
        say(_("To use it: hookgw profile use {name}, or --profile {name} with a command.", name=name))


@profile.command("list")
@table_options
def list_() -> None:
    """List the profiles. Keys are not shown."""
    try:
        stored = load_profiles(profiles_file())
    except NoHome:
        stored = Profiles()
    rows = [
        {
            "name": name,
            "url": with_masked_user(found.url),
            "key": "stored" if found.key else found.key_file,
            "inUse": name == stored.use,
        }
        for name, found in stored.profiles.items()
    ]
    if shown_as_json(rows):
        return
    columns = (Column("name", least=None), Column("URL", least=20), Column("key", least=10), "in use")
    show_table(columns, ([*row.values()] for row in rows))


@profile.command()
@name_argument
def use(name: str) -> None:
    """Make commands use a profile.

    An option or the environment can still name another one.
    """
    file = profiles_file()
    stored = load_profiles(file)
    stored.named(name, file)
    save_profiles(file, msgspec.structs.replace(stored, use=name))
    say(_("Commands use {name!r}.", name=name))


@profile.command()
@name_argument
def remove(name: str) -> None:
    """Remove a profile. Its key stays valid; `hookgw key revoke` revokes a key."""
    file = profiles_file()
    stored = load_profiles(file)
    stored.named(name, file)
    rest = {other: found for other, found in stored.profiles.items() if other != name}
    save_profiles(file, Profiles(use=None if stored.use == name else stored.use, profiles=rest))
    say(_("Removed {name!r}.", name=name))
