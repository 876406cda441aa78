"""Refuses an option that takes one value and is given twice: click would take the last one, silently."""

from __future__ import annotations

from typing import Any

import click

from hookgw.kernel.language import gettext as _


def refuse_repeated(command: click.Command) -> None:
    """Let a command, and those of a group, refuse such options. Flags may be repeated."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            refuse_repeated(one)
    if "make_parser" in vars(command):
        return
    make_parser = command.make_parser

    def make(ctx: click.Context) -> Any:
        parser: Any = make_parser(ctx)
        parse_args = parser.parse_args

        def parse(args: list[str]) -> Any:
            options, rest, order = parse_args(args)
            for one in {*order}:
                takes_one = isinstance(one, click.Option) and not (one.multiple or one.is_flag or one.count)
                if takes_one and order.count(one) > 1 and not ctx.resilient_parsing:
                    raise click.UsageError(
                        _("{option} is given twice; it takes one value.", option=one.opts[0]), ctx
                    )
            return options, rest, order

        parser.parse_args = parse
        return parser

    command.make_parser = make  # type: ignore[method-assign]
