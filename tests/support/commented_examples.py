"""Examples in the comments of a YAML file, above their keys."""

import re
from collections.abc import Collection, Iterator


def uncommented(text: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each example, and the file as it is when somebody has uncommented that one.

    Args:
        text: of the file.
        names: of keys. A comment that begins with one and a colon is an example, up to the comment's end;
            the key below it, if it is the same one, goes.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        match = re.match(r"( *)# (\w+):(?: |$)", line)
        if match is None or match[2] not in names:
            continue
        indent, name = match.groups()
        begin = f"{indent}# "
        end = next(n for n in range(number, len(lines)) if not lines[n].startswith(begin))
        example = [indent + one.removeprefix(begin) for one in lines[number:end]]
        below = lines[end:]
        if below[0].startswith(f"{indent}{name}:"):
            del below[0]
        yield name, "\n".join([*lines[:number], *example, *below])
