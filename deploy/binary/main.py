"""What the single binary runs: the ``hookgw`` command."""

from __future__ import annotations

from hookgw.cli.group import main

main(prog_name="hookgw")
