"""Use cases, and the one function that composes a gateway."""
