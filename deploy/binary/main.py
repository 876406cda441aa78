"""What the single binary runs: the ``hookgw`` command."""

from __future__ import annotations

from hookgw.command.group import main

main(prog_name="hookgw")
