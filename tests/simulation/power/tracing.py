"""Records what a program does to files, with all bytes, by watching its system calls.

Why like this. The record must be of the very SQLite that Python's ``sqlite3`` uses, and of hookgw's own calls
(``os.fsync`` of a folder, ``os.link``) in one order with it. A VFS for SQLite sees only SQLite's calls, and
not what SQLite's own VFS does inside (it synchronizes folders there). A library that is preloaded needs a
compiler on every machine that runs the tests; strace needs to be installed. The kernel's own interface for
debuggers, ``ptrace``, needs neither: it is called with ctypes. A seccomp filter in the program stops it at
the few system calls that change files, and at no others, so that it runs nearly as fast as without.

Each call is recorded when it ends, because its result counts. A synchronization also has the moment of its
beginning: it covers what had ended by then. Threads go on beside each other, as in production.

Memory that is mapped and shared, such as SQLite's index of its log (``-shm``), is not recorded: nothing
synchronizes it, and a power cut may leave anything in it. :func:`record` compares the files at the end with
what the record makes of them, so that a kind of call that it does not know would be noticed.
"""

import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.power.disk import Disk
from tests.simulation.power.operations import (
    Link,
    Mark,
    Operation,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)

MARKS = 99
"""The file descriptor to which the program writes its marks."""

# The numbers of the system calls that change files or descriptors.
_X86_64 = {
    "write": 1, "open": 2, "close": 3, "pwrite64": 18, "writev": 20, "sendfile": 40, "fsync": 74,
    "fdatasync": 75, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85,
    "link": 86, "unlink": 87, "symlink": 88, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "symlinkat": 266, "sync_file_range": 277, "fallocate": 285, "pwritev": 296,
    "renameat2": 316, "copy_file_range": 326,
}  # fmt: skip
_AARCH64 = {
    "symlinkat": 36, "mkdirat": 34, "unlinkat": 35, "linkat": 37, "renameat": 38, "truncate": 45,
    "ftruncate": 46, "fallocate": 47, "openat": 56, "close": 57, "write": 64, "writev": 66, "pwrite64": 68,
    "pwritev": 70, "sendfile": 71, "fsync": 82, "fdatasync": 83, "sync_file_range": 84, "renameat2": 276,
    "copy_file_range": 285,
}  # fmt: skip
_NUMBERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
# Calls that the record cannot express. None of them is made on files below the folder.
_UNKNOWN = {"writev", "pwritev", "sendfile", "copy_file_range", "fallocate"}

_CONT, _SYSCALL, _SEIZE, _SYSCALL_INFO = 7, 24, 0x4206, 0x420E
_OPTIONS = 0x1 | 0x8 | 0x80 | 0x100000  # TRACESYSGOOD, TRACECLONE, TRACESECCOMP, EXITKILL
_EVENT_SECCOMP = 7
_STOP_AT_EXIT = signal.SIGTRAP | 0x80
_AT_FDCWD = -100
_ALL_THREADS = 0x40000000  # __WALL

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class CannotTrace(Exception):
    """This machine does not let a program watch its own child."""


def record(folder: Path, command: Sequence[str], *, limit: float = 120) -> tuple[Disk, list[Operation]]:
    """Run a Python program and return what it did to the files below a folder.

    Args:
        folder: what is in it at the beginning is on disk.
        command: arguments for this Python. The program calls :func:`be_recorded` before it opens a file.
        limit: the seconds after which the program is killed.

    Returns:
        The disk as it was before, and the operations in order.

    Raises:
        CannotTrace: not on this machine; the message says why.
        RuntimeError: the program failed, or made a call that cannot be recorded.
    """
    _check_platform()
    recorder = _Recorder(folder.resolve())
    disk = Disk(recorder.found)
    # Coverage of this program would be measured at its end, which may be a kill; and it opens files, too.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=env,
        process_group=0,
    ) as process:
        killer = threading.Timer(limit, process.kill)
        killer.start()
        try:
            recorder.watch(process)
        finally:
            killer.cancel()
            if process.returncode is None:
                process.kill()
        assert process.stderr is not None
        said = process.stderr.read().decode()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"The recorded program ended with {process.returncode}: {said}")
    if not recorder.is_cut_off:
        _compare(folder, disk.copy(), recorder.operations)
    return disk, recorder.operations


def try_tracing() -> None:
    """Raise :class:`CannotTrace` where programs cannot be recorded."""
    _check_platform()
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            _seize(process.pid)
        finally:
            process.kill()


def _check_platform() -> None:
    if platform.system() != "Linux" or platform.machine() not in _NUMBERS:
        raise CannotTrace(f"System calls are watched on Linux on {' and '.join(_NUMBERS)} only.")


def _seize(pid: int) -> None:
    if _libc.ptrace(_SEIZE, pid, None, _OPTIONS):
        raise CannotTrace(
            f"ptrace is refused: {os.strerror(ctypes.get_errno())}. In a container, allow it "
            "(--cap-add SYS_PTRACE), or run these tests outside of it."
        )


def _compare(folder: Path, disk: Disk, operations: Sequence[Operation]) -> None:
    """Raise an error unless the record makes of the files what they are."""
    for operation in operations:
        disk.do(operation)
    recorded = disk.everything()
    there = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    if there != recorded.keys():
        raise RuntimeError(f"The record has other files: {sorted(there ^ recorded.keys())}.")
    for path, content in recorded.items():
        if not path.endswith("-shm") and content != Path(folder, path).read_bytes():
            raise RuntimeError(f"The record of {path} is not what was done to it.")


def be_recorded() -> None:
    """Let the parent record this process from now on. It must have one thread still."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), MARKS)
    if not os.read(0, 1):
        raise SystemExit("Nobody records this program.")
    numbers = _NUMBERS[platform.machine()].values()

    def instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    program = instruction(0x20, 0)  # load the number of the system call
    for place, number in enumerate(numbers):
        program += instruction(0x15, number, yes=len(numbers) - place)  # if equal, go to the last one
    program += instruction(0x06, 0x7FFF0000)  # allow
    program += instruction(0x06, 0x7FF00000)  # stop, and let the parent look
    code = ctypes.create_string_buffer(program)
    filter_program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    )
    for arguments in ((38, 1, 0, 0, 0), (22, 2, ctypes.addressof(filter_program), 0, 0)):
        if _libc.prctl(arguments[0], *map(ctypes.c_ulong, arguments[1:])):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mark(text: bytes) -> None:
    """Say something in the record, at this place of it."""
    os.write(MARKS, text)


class _Call:
    """A system call that has begun."""

    def __init__(self, name: str, arguments: tuple[int, ...], begun: int) -> None:
        self.name = name
        self.arguments = arguments
        self.begun = begun
        self.paths: list[str] = []
        self.is_new = False


class _Recorder:
    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._numbers = {number: name for name, number in _NUMBERS[platform.machine()].items()}
        self._ids: dict[tuple[int, int], int] = {}
        self._count = 0
        self._descriptors: dict[int, int] = {}
        self._calls: dict[int, _Call] = {}
        self._memory = -1
        self._info = ctypes.create_string_buffer(128)
        self.operations: list[Operation] = []
        # Whether the program was killed in the middle of a call: it may have been done, or not.
        self.is_cut_off = False
        self.found: dict[str, bytes] = {}
        self._folders: dict[str, int] = {}
        self._number_of(folder.stat())
        for path in sorted(folder.iterdir()):
            self.found[path.name] = path.read_bytes()
            self._number_of(path.stat())

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        pid = self._pid = process.pid
        _seize(pid)
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            assert process.stdin is not None
            process.stdin.write(b"!")
            process.stdin.flush()
            while True:
                thread, status = os.waitpid(-pid, _ALL_THREADS)
                if os.WIFSTOPPED(status):
                    self._stopped(thread, status)
                elif thread == pid:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    self.is_cut_off = bool(self._calls)
                    return
        finally:
            os.close(self._memory)

    def _stopped(self, thread: int, status: int) -> None:
        event, number = status >> 16, os.WSTOPSIG(status)
        request, sent = _CONT, 0
        if event == _EVENT_SECCOMP:
            if self._begin(thread):
                request = _SYSCALL
        elif number == _STOP_AT_EXIT:
            self._end(thread)
        elif not event:
            sent = number  # a signal, which is passed on
        # A thread that was killed meanwhile is reported as ended.
        _libc.ptrace(request, thread, None, sent)

    def _look(self, thread: int) -> bytes:
        if _libc.ptrace(_SYSCALL_INFO, thread, len(self._info), ctypes.addressof(self._info)) <= 0:
            return b""
        return self._info.raw

    def _begin(self, thread: int) -> bool:
        """Note a call that begins; return whether its end is to be seen."""
        info = self._look(thread)
        if not info:
            return False
        number, *arguments = struct.unpack_from("=Q6q", info, 24)
        name = self._numbers[number]
        first = arguments[0]
        descriptor = first if name != "copy_file_range" else arguments[2]
        call = _Call(name, tuple(arguments), len(self.operations))
        if name == "write" and descriptor == MARKS:
            self.operations.append(Mark(self._read(arguments[1], arguments[2])))
            return False
        if name == "close":
            self._descriptors.pop(descriptor, None)
            return False
        if name in ("write", "pwrite64", "ftruncate", "fsync", "fdatasync", *_UNKNOWN):
            if descriptor not in self._descriptors:
                return False
        elif name not in ("open", "openat", "creat"):
            call.paths = self._paths_of(call)
            if not any(self._is_inside(path) for path in call.paths):
                return False
        else:
            path, flags = self._opened(call)
            call.paths = [path]
            call.is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
        if name in _UNKNOWN or name in ("symlink", "symlinkat", "truncate"):
            raise RuntimeError(f"The program calls {name}, which cannot be recorded.")
        self._calls[thread] = call
        return True

    def _end(self, thread: int) -> None:
        """Record a call that has ended, unless it failed."""
        call = self._calls.get(thread)
        info = self._look(thread)
        # A thread that was killed meanwhile says nothing more: its call stays as one in whose middle it was.
        if call is None or not info:
            return
        del self._calls[thread]
        result: int = struct.unpack_from("=q", info, 24)[0]
        if result < 0:
            return
        name, arguments = call.name, call.arguments
        if name in ("open", "openat", "creat"):
            self._end_open(call, result)
        elif name == "pwrite64":
            data = self._read(arguments[1], result)
            self.operations.append(Write(self._descriptors[arguments[0]], arguments[3], data))
        elif name == "write":
            place = Path(f"/proc/{self._pid}/fdinfo/{arguments[0]}").read_text()
            offset = int(place.split("pos:")[1].split()[0]) - result
            data = self._read(arguments[1], result)
            self.operations.append(Write(self._descriptors[arguments[0]], offset, data))
        elif name == "ftruncate":
            self.operations.append(Truncate(self._descriptors[arguments[0]], arguments[1]))
        elif name in ("fsync", "fdatasync"):
            # Closed by another thread meanwhile: then it is another descriptor, and nobody relies on it.
            if arguments[0] in self._descriptors:
                self.operations.append(Sync(self._descriptors[arguments[0]], call.begun))
        else:
            self._end_naming(call)

    def _end_open(self, call: _Call, descriptor: int) -> None:
        flags = self._opened(call)[1]
        place = Path(f"/proc/{self._pid}/fd/{descriptor}")
        path = str(place.readlink())
        if not self._is_inside(path) or flags & getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY:
            self._descriptors.pop(descriptor, None)
            return
        status = place.stat()
        if call.is_new:
            node = self._number_of(status, is_new=True)
            folder, name = self._place(path)
            self.operations.append(Link(folder, name, node))
        else:
            node = self._number_of(status)
            if flags & os.O_TRUNC:
                self.operations.append(Truncate(node, 0))
        self._descriptors[descriptor] = node

    def _end_naming(self, call: _Call) -> None:
        name = call.name
        if name.startswith("mkdir"):
            folder, entry = self._place(call.paths[0])
            node = self._number_of(Path(call.paths[0]).stat(), is_new=True)
            self.operations.append(Link(folder, entry, node, is_folder=True))
        elif name.startswith(("unlink", "rmdir")):
            self.operations.append(Unlink(*self._place(call.paths[0])))
        elif name.startswith("link"):
            node = self._number_of(Path(call.paths[1]).stat())
            self.operations.append(Link(*self._place(call.paths[1]), node))
        elif name.startswith("rename"):
            self.operations.append(Rename(*self._place(call.paths[0]), *self._place(call.paths[1])))

    def _number_of(self, status: os.stat_result, *, is_new: bool = False) -> int:
        key = status.st_dev, status.st_ino
        if is_new or key not in self._ids:
            self._ids[key] = self._count
            self._count += 1
        return self._ids[key]

    def _place(self, path: str) -> tuple[int, str]:
        return self._number_of(Path(path).parent.stat()), Path(path).name

    def _is_inside(self, path: str) -> bool:
        return path == self._folder or path.startswith(self._folder + "/")

    def _opened(self, call: _Call) -> tuple[str, int]:
        arguments = call.arguments
        if call.name == "creat":
            return self._path(_AT_FDCWD, arguments[0]), os.O_CREAT | os.O_TRUNC
        if call.name == "open":
            return self._path(_AT_FDCWD, arguments[0]), arguments[1]
        return self._path(arguments[0], arguments[1]), arguments[2]

    def _paths_of(self, call: _Call) -> list[str]:
        name, given = call.name, call.arguments
        if name in ("renameat", "renameat2", "linkat"):
            return [self._path(given[0], given[1]), self._path(given[2], given[3])]
        if name.endswith("at"):
            return [self._path(given[0], given[1])]
        if name in ("rename", "link"):
            return [self._path(_AT_FDCWD, given[0]), self._path(_AT_FDCWD, given[1])]
        return [self._path(_AT_FDCWD, given[0])]

    def _path(self, folder: int, address: int) -> str:
        text = os.fsdecode(self._read(address, 4096, text=True))
        # Descriptors have 32 bits; the other half of the register means nothing.
        folder = ctypes.c_int(folder & 0xFFFFFFFF).value
        start = f"/proc/{self._pid}/cwd" if folder == _AT_FDCWD else f"/proc/{self._pid}/fd/{folder}"
        path = Path(start).readlink() / text
        return str(path.parent.resolve() / path.name)

    def _read(self, address: int, size: int, *, text: bool = False) -> bytes:
        if not text:
            return os.pread(self._memory, size, address)
        # A text may end just before memory that is not there.
        found = b""
        while b"\0" not in found and len(found) < size:
            found += os.pread(self._memory, 256 - address % 256, address)
            address += 256 - address % 256
        return found.partition(b"\0")[0]
