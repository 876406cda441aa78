"""``hookgw master-key``: generate the key that encrypts the data file."""

from __future__ import annotations

import click

from hookgw.command.output import say
from hookgw.config.master_keys import new_master_key


@click.command("master-key")
def master_key() -> None:
    """Generate a master key and print it.

    Give it to hookgw as HOOKGW_MASTER_KEY, storage.master_key or
    storage.master_key_file. hookgw then encrypts secrets, headers, URLs and
    options in the data file. This command changes nothing and stores nothing.
    Keep the key apart from the data file and its backups: without it, they
    cannot be read.
    """
    # Nothing but the key, so that the output can go to a file.
    say(new_master_key())
