"""Runs a command for as long as the process at the other end of standard input lives.

``python -m examples.grpo.tethered COMMAND...``: when standard input closes, as it does however its
owner ends, or on a signal, the command and all that it started are ended. Ray kills an actor's
process without warning, and what that process started would go on. A Ray worker that ends kills its
children, this one among them: so the command is watched by a child of this process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE_S = 10.0
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """Run the command; its exit status, or that of one which was ended."""
    watcher = os.fork()
    if watcher:
        for name in _ENDING:
            signal.signal(name, lambda number, _: os.kill(watcher, number))
        return os.waitstatus_to_exitcode(os.waitpid(watcher, 0)[1])
    os.setsid()
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    for name in _ENDING:
        signal.signal(name, lambda *_: end(process))
    threading.Thread(target=wait_for_owner, args=(process,), daemon=True).start()
    status = process.wait()
    end_group(process.pid, signal.SIGKILL)  # what a command that crashed has left
    return status


def wait_for_owner(process: subprocess.Popen[bytes]) -> None:
    """End the command when its owner is gone."""
    while os.read(0, 4096):
        pass
    end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the command and its descendants, at once where they do not end by themselves."""
    end_group(process.pid, signal.SIGTERM)
    timer = threading.Timer(GRACE_S, end_group, (process.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()


def end_group(group: int, number: signal.Signals) -> None:
    """Signal a process group that may be gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    raise SystemExit(main())
