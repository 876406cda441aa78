"""What the configuration may hold, and what the fuzzer has found before."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.targets import TARGETS
from tests.public.config import load_settings
from tests.public.kernel import ConfigError
from tests.security.families import Trial, family
from tests.support.live import Live

_LAUGHS = "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 10))
CONFIGURATIONS = {
    "a billion laughs": f"k0: &k0 [lol]\n{_LAUGHS}\n",
    "an alias": "log: &a {level: info}\nserver: *a\n",
    "an alias of itself": "log: &a [*a]\n",
    "a merge": "a: &a {level: info}\nlog: {<<: *a}\n",
    "a Python object": "log: !!python/object/apply:os.system [id]\n",
    "a Python name": "log: !!python/name:os.system\n",
    "a Python module": "log: !!python/module:os\n",
    "a new Python object": "log: !!python/object/new:type {args: [x, !!python/tuple [], {}]}\n",
    "binary": "log: {level: !!binary aGk=}\n",
    "a tag of one's own": "log: !secret x\n",
    "ten thousand levels": "a: " + "[" * 10_000 + "]" * 10_000,
    "ten thousand mappings deep": "{a: " * 10_000,
    "a key twice": "log: {level: info}\nlog: {level: debug}\n",
    "a key that is a list": "? [a, b]\n: c\n",
    "two documents": "log: {}\n---\nlog: {}\n",
    "a tab": "log:\n\tlevel: info\n",
    "control characters": "log: \x00\n",
    "2 MiB": "# " + "x" * 2**21,
    "an unknown key": "auth: {globel_key: abcdefgh}\n",
    "a reference to nothing": "auth: {global_key: '${NO_SUCH_VARIABLE}'}\n",
    "a number of a million digits": "storage: {retention: " + "9" * 1_000_000 + "d}\n",
}


@family("configurations", "the start is refused; the error names the line and a correct value")
def configurations(live: Live) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in CONFIGURATIONS.items():
            file = Path(folder, "hookgw.yaml")
            file.write_text(text, encoding="utf-8")
            try:
                load_settings(file, {})
            except ConfigError as error:
                yield Trial(name, "refused", bool(error.messages))
            else:
                yield Trial(name, "taken", expected=False)


@family("kept fuzz inputs", "the parser breaks no promise")
def kept(live: Live) -> Iterator[Trial]:
    for target in TARGETS.values():
        for path in target.kept():
            try:
                target.check(path.read_bytes())
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is a surprise
                yield Trial(f"{target.name}/{path.name}", repr(error), expected=False)
            else:
                yield Trial(path.name, "held", expected=True)
