"""One run of the fuzzer on one target, in a process of its own (libFuzzer ends it).

``python -m tests.fuzz.worker STARTER NAME OPTION… FOLDER…``: options and folders are libFuzzer's, and so is
the starter: an executable file that does the same with further options, since merging needs further runs.
"""

import sys

import atheris

with atheris.instrument_imports(include=["hookgw", "idna", "email"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    starter, name, *arguments = sys.argv[1:]
    atheris.Setup([starter, *arguments], TARGETS[name].check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
