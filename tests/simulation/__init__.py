"""The simulator: a whole gateway on a simulated clock, network and disk, with faults at every step.

Everything that happens in a run follows from its seed, so that every failure can be repeated.
``docs/proofs.md`` describes it.
"""
