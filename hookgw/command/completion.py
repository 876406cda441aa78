"""``hookgw completion``: complete commands, options and names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from hookgw.command.completing import COMPLETE
from hookgw.command.failure import Failed
from hookgw.command.group import main
from hookgw.command.output import show_drawing
from hookgw.kernel.language import gettext as _


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete `hookgw`.

    \b
        bash:  echo 'eval "$(hookgw completion bash)"' >> ~/.bashrc
        zsh:   echo 'eval "$(hookgw completion zsh)"' >> ~/.zshrc
        fish:  hookgw completion fish > ~/.config/fish/completions/hookgw.fish

    It completes commands and options, and with a reachable gateway also instances, labels and kinds.
    """
    # bash needs 4.4: click asks the bash of the path, which may be missing or older.
    found = get_completion_class(shell)
    if found is None:
        raise Failed(_("This version of click knows no completion for {shell}.", shell=shell))
    show_drawing(found(main, {}, "hookgw", COMPLETE).source())
