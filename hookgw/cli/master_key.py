"""``hookgw master-key``: a key to seal with what is stored."""

from __future__ import annotations

import click

from hookgw.config.master_keys import new_master_key


@click.command("master-key")
def master_key() -> None:
    """Make a new master key and print it.

    Given to hookgw as HOOKGW_MASTER_KEY, storage.master_key or storage.master_key_file, it seals secrets,
    headers, URLs and options in the data file. This command changes and keeps nothing: keep the key apart
    from the data file and its backups.
    """
    click.echo(new_master_key())
