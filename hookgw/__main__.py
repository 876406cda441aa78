"""Run the ``hookgw`` command as ``python -m hookgw``."""

from __future__ import annotations

from hookgw.command.garbage import tune_garbage_collector

# Before anything large is imported: an import leaves hardly any garbage, and looking for it every 700 objects
# takes a seventh of the start.
tune_garbage_collector()

from hookgw.command.group import main  # noqa: E402

if __name__ == "__main__":
    main(prog_name="hookgw")
