"""Routes that are compiled once for all applications of a process.

Werkzeug writes two functions for each route that build its URL, which takes nine tenths of the time in which
an application is made (40 ms). hookgw never calls them, so that those of another rule will do.
"""

from typing import Any

from quart.routing import QuartRule

_compiled: dict[tuple[object, ...], tuple[dict[str, Any], frozenset[str]]] = {}


class CompiledOnce(QuartRule):
    """The rule of a route."""

    def compile(self) -> None:
        """Do what the superclass does, or take what it made of an equal rule."""
        key = (self.rule, self.host, self.subdomain, self.merge_slashes, frozenset(self.arguments))
        if key not in _compiled:
            before = dict(vars(self))
            super().compile()
            made = {name: value for name, value in vars(self).items() if before.get(name) is not value}
            _compiled[key] = made, frozenset(self.arguments)
        made, arguments = _compiled[key]
        vars(self).update(made)
        self.arguments = set(arguments)
