"""Events: how they are read, accepted and stored."""
