"""A process in a sandbox of sandlock: Landlock, seccomp and limits, without root or a container.

It runs Python with the standard library. It has no network, no other file, no second process and no
environment of ours, and it ends with the process that started it.
"""

from __future__ import annotations

import marshal
import os
import platform
import resource
import select
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reward_serve_checkers import inside

WALL = 3  # real time of a test, in CPU time limits, unless it waits for a core
INSIDE = Path(inside.__file__).read_text(encoding="utf-8")

_MOST_REAL = 20  # real time of a test on a busy machine, in CPU time limits
_MIN_ABI = 6  # of Landlock; earlier ones leave abstract sockets outside open
_POLL_S = 0.02
_CHUNK = 2**16
_TAIL = 2**12  # bytes kept of what a process writes to stderr

# Without site. Hashes are fixed, so that a program which prints a set has the same score each time.
_OPTIONS = "-P -s -S -B -X utf8 -X int_max_str_digits=0 -c"
_CODE = marshal.dumps(compile(INSIDE, "inside.py", "exec"))  # compiling it takes 5 ms
_LOADER = f"""import marshal, os
code = b""
while len(code) < {len(_CODE)}:
    code += os.read(0, {len(_CODE)} - len(code))
exec(marshal.loads(code))"""
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
# What Landlock leaves free: attributes of files, limits and priorities of this user's processes,
# and the signal that ends a process with its parent. Other signals have two guards.
_DENIED = (
    "fchmod fchmodat fchmodat2 fchown fchownat utimensat setxattr lsetxattr fsetxattr setxattrat "
    "removexattr lremovexattr fremovexattr file_setattr memfd_create memfd_secret setpriority "
    "sched_setscheduler sched_setattr sched_setparam sched_setaffinity ioprio_set inotify_init1 "
    "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal "
    "prlimit64 setrlimit prctl "
)
if platform.machine() == "x86_64":
    _DENIED += "chmod chown lchown utime utimes futimesat inotify_init"


class SandboxError(RuntimeError):
    """The sandbox failed, so nothing is known about the program."""


class SandboxBusyError(SandboxError):
    """The sandbox has no capacity for the program now."""


class StoppedError(Exception):
    """The program ended, or was ended, without an answer."""


@dataclass(frozen=True)
class Limits:
    """Limits of a program.

    Attributes:
        test_s: time of a test: CPU time, or a third of the real time if that is more.
        total_s: time of all tests, measured likewise.
        memory_mib: address space of each process, in MiB.
    """

    test_s: float = 6.0
    total_s: float = 18.0
    memory_mib: int = 512


class Clock:
    """Measures the time of tests, by the CPU time of their processes, which it ends at last.

    Time in which a process, or this one, is ready to run and waits for a core is nobody's.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.processes: list[Process] = []
        self.ended_cpu_s = self.ended_queued_s = self._earlier_s = 0.0
        self._began, self._since = time.monotonic(), self._now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in list(self.processes):
            process.close()

    def start_test(self) -> None:
        """Begin the next test; raises like ``check``."""
        self._earlier_s += self._test_s()
        self._began, self._since = time.monotonic(), self._now()
        self.check()

    def check(self) -> None:
        """See how long the test has taken.

        Raises:
            StoppedError: it took too long, or all together did.
            SandboxBusyError: nobody can tell, since the machine is too busy.
        """
        test_s = self._test_s()
        if test_s > self.limits.test_s:
            raise StoppedError(f"took longer than {self.limits.test_s:g} s")
        if self._earlier_s + test_s > self.limits.total_s:
            raise StoppedError(f"all tests together took longer than {self.limits.total_s:g} s")
        if time.monotonic() - self._began > _MOST_REAL * self.limits.test_s:
            raise SandboxBusyError("the machine is too busy to run programs; add cores")

    def _test_s(self) -> float:
        cpu_s, real_s = self._now()
        return max(cpu_s - self._since[0], (real_s - self._since[1]) / WALL)

    def _now(self) -> tuple[float, float]:
        """CPU time and real time."""
        times = [process.times() for process in self.processes]
        cpu_s, queued_s = (sum(column) for column in zip((0.0, 0.0), *times, strict=True))
        queued_s += self.ended_queued_s + _queued_s("thread-self")
        return self.ended_cpu_s + cpu_s, time.monotonic() - queued_s


class Process:
    """A sandboxed interpreter that runs ``source`` in a mode of ``inside``.

    Raises:
        SandboxError: it could not be started.
    """

    def __init__(self, mode: str, source: bytes, *, folder: str, clock: Clock) -> None:
        try:
            from sandlock.sandbox import StdioMode

            command = [_interpreter(), *_OPTIONS.split(), _LOADER, mode]
            self._sandbox = _sandbox(folder)
            self._process = self._sandbox.popen(command, *[StdioMode.PIPED] * 3)
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            raise SandboxError(f"the sandbox did not start: {error}") from error
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._readable = [self._stdout, self._process.stderr]
        self._code, self._unsent = _CODE, inside.frame(source)
        self._output, self._errors = bytearray(), b""
        self._ready = self._closing = False
        self._clock, self._times, self._ended = clock, (0.0, 0.0), False
        self._pid = self._process.pid
        self._cpu_clock = ~self._pid << 3 | 2  # as clock_getcpuclockid(3)
        self._exit = os.pidfd_open(self._pid)
        clock.processes.append(self)

    def times(self) -> tuple[float, float]:
        """CPU time, and time spent waiting for a core, until now; in seconds."""
        if not self._ended:
            with suppress(OSError):  # it is ending
                self._times = time.clock_gettime(self._cpu_clock), _queued_s(str(self._pid))
        return self._times

    def send(self, data: bytes) -> None:
        """Send a frame."""
        self._unsent += inside.frame(data)

    def line(self, limit: int) -> bytes:
        """The next line, at most ``limit`` bytes; raises ``StoppedError`` if there is none."""
        while (end := self._output.find(b"\n")) < 0:
            if self._stdout not in self._readable:
                raise StoppedError(self._failure() or "ended before it answered")
            self._move(limit)
        line = bytes(self._output[:end])
        del self._output[: end + 1]
        return line

    def output(self, sent: bytes, limit: int) -> bytes:
        """All that it writes for this input, at most ``limit`` bytes.

        Raises:
            StoppedError: it took too long, wrote more, or failed.
        """
        self._unsent += sent
        self._closing = True
        while self._stdout in self._readable:
            self._move(limit)
        if failure := self._failure():
            raise StoppedError(failure)
        return bytes(self._output)

    def close(self) -> None:
        """Kill it."""
        if self in self._clock.processes:
            self._clock.processes.remove(self)
            cpu_s, queued_s = self.times()
            self._clock.ended_cpu_s += cpu_s
            self._clock.ended_queued_s += queued_s
            self._process.__exit__(None, None, None)
            os.close(self._exit)

    def _move(self, limit: int) -> None:
        """Write and read what is possible in a moment."""
        waits = self._code or (self._ready and (self._unsent or self._closing))
        writable = [self._stdin] if waits and not self._stdin.closed else []
        readable, writable, _ = select.select(self._readable, writable, [], _POLL_S)
        for stream in readable:
            data = os.read(stream.fileno(), _CHUNK)
            if not data:
                self._readable.remove(stream)
            elif stream is self._stdout:
                self._output += data
            else:
                self._errors = (self._errors + data)[-_TAIL:]
        if not self._ready and self._output:
            self._ready = True
            del self._output[: len(inside.READY)]
            self._limit()
        if len(self._output) > limit:
            raise StoppedError(f"wrote more than {limit} bytes")
        if writable:
            try:
                written = os.write(self._stdin.fileno(), self._code or self._unsent)
            except BrokenPipeError:
                self._code, self._unsent, written = b"", b"", 0
            if self._code:
                self._code = self._code[written:]
            else:
                self._unsent = self._unsent[written:]
            if self._closing and not self._unsent:
                self._stdin.close()
        self._clock.check()

    def _limit(self) -> None:
        """Limit its resources: the call by which it could do so would limit our processes too."""
        memory = self._clock.limits.memory_mib << 20
        for kind, most in (("AS", memory), ("CORE", 0), ("FSIZE", 0), ("NOFILE", 64)):
            resource.prlimit(self._process.pid, getattr(resource, f"RLIMIT_{kind}"), (most, most))

    def _failure(self) -> str:
        """How the process failed, once its output has ended; nothing if it did not."""
        while not select.select([self._exit], [], [], _POLL_S)[0]:
            self._clock.check()
        self._ended = True
        result = self._process.wait()
        errors = self._errors.decode(errors="replace").strip()
        if result.reason.name == "KILLED":  # no program of one process can do so
            raise SandboxError("the program was killed: by the kernel, if memory was short")
        if result.error or not self._ready:
            raise SandboxError(f"the sandbox failed: {result.error or errors[-300:]}")
        if result.success:
            return ""
        last = errors.rpartition("\n")[2][:300]
        return last or f"ended with {result.reason.name.lower()}, exit code {result.exit_code}"


def _queued_s(process: str) -> float:
    """How long a process's first thread has waited for a core; 0 if the kernel does not say."""
    with suppress(FileNotFoundError, IndexError):
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _interpreter() -> str:
    return os.path.realpath(sys.executable)


def _sandbox(folder: str) -> Any:
    from sandlock import Sandbox

    library = sysconfig.get_path("stdlib")
    readable = [*_LIBRARIES, _interpreter(), library, str(Path(library).parent), folder]
    return Sandbox(
        fs_readable=["/dev/urandom", *(path for path in readable if Path(path).exists())],
        fs_writable=[os.devnull],
        cwd=folder,
        clean_env=True,
        env=_ENVIRONMENT,
        max_processes=1,
        extra_deny_syscalls=_DENIED.split(),
    )


def sandbox_fault() -> str | None:
    """Why programs cannot run in a sandbox on this machine, with the remedy; None if they can."""
    try:
        from sandlock import landlock_abi_version
    except (ImportError, OSError) as error:
        return f"sandlock is not usable ({error}); pip install 'reward-serve-checkers[sandbox]'"
    if (version := landlock_abi_version()) < _MIN_ABI:
        return (
            f"Linux {platform.release()} offers Landlock ABI {max(0, version)}, and {_MIN_ABI} is "
            "needed; use Linux 6.12 or later with landlock in /sys/kernel/security/lsm, or a "
            "SandboxFusion server"
        )
    try:
        with tempfile.TemporaryDirectory() as folder, Clock(Limits()) as clock:
            output = Process("stdin", b"print(6 * 7)", folder=folder, clock=clock).output(b"", 99)
    except (OSError, SandboxError, StoppedError) as error:
        output = str(error).encode()
    if output == b"42\n":
        return None
    return (
        f"a program that prints 42 gave {output[-300:]!a} in the sandbox; let the container use "
        "Landlock and seccomp, or name a SandboxFusion server"
    )
