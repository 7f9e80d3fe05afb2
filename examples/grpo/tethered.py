"""Runs a command for as long as the process at the other end of standard input lives.

``python -m examples.grpo.tethered COMMAND...`` stops the command and its descendants on a signal or
when standard input closes, which happens however the owner ends. Ray kills an actor's process
without warning, and its descendants would live on. Ray workers also kill their children, including
this process, so a child of this process watches the command.
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
    """Run the command; returns its exit status."""
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
    end_group(process.pid, signal.SIGKILL)  # left behind by a crashed command
    return status


def wait_for_owner(process: subprocess.Popen[bytes]) -> None:
    """Stop the command when its owner is gone."""
    while os.read(0, 4096):
        pass
    end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the command and its descendants; kill them if they have not exited after 10 s."""
    end_group(process.pid, signal.SIGTERM)
    timer = threading.Timer(GRACE_S, end_group, (process.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()


def end_group(group: int, number: signal.Signals) -> None:
    """Signal a process group, which may be gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    raise SystemExit(main())
