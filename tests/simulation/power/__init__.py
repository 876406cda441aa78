"""Power cuts: everything that was promised is there, whatever the disk did with unsynchronized writes.

- ``tracing`` records what a program does to its files, from its system calls;
- ``disk`` says what a disk may hold after a power cut at any moment of the record;
- ``workload`` is the recorded program, or ``serving`` a whole server; ``plants`` has faults for it;
- ``kinds`` has the kinds of runs;
- ``account`` is a model of what the store must hold;
- ``runs`` records, cuts, opens what is left with hookgw's own ``open_store``, and compares.

``python -m tests.simulation.power --states 20000`` looks at many states.
"""
