"""Ends an engine's processes with the replica that owns them.

A killed replica cannot clean up, and vLLM's engine core does not notice that its owner is gone.
vLLM loads plugins in every process that it starts (entry point ``vllm.general_plugins``); this
plugin asks the kernel to kill the process when its parent dies. There it also marks what vLLM
leaves undefined.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_OWNER_VARIABLE = "REWARD_SERVE_ENGINE_OWNER"
_PR_SET_PDEATHSIG = 1


def own_child_processes() -> None:
    """Mark this process as the owner of the engine processes that it will start."""
    os.environ[_OWNER_VARIABLE] = str(os.getpid())


def install() -> None:
    """Make a process of an owned engine die with its parent; no effect in other processes.

    Also, ``mark_undefined_rows``.
    """
    owner = os.environ.get(_OWNER_VARIABLE)
    if owner is None or owner == str(os.getpid()) or sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() == 1:  # the parent died before the kernel was asked
        os._exit(1)
    if "vllm" in sys.modules:
        mark_undefined_rows()


def mark_undefined_rows() -> None:
    """Give log-probabilities of prompts that are not computed, as after a preemption, no token.

    Otherwise they are of the request that had their memory before, perhaps for the same tokens.
    """
    from vllm.v1.outputs import LogprobsTensors

    undefined = LogprobsTensors.empty_cpu

    def marked(positions: int, tokens: int) -> LogprobsTensors:
        tensors = undefined(positions, tokens)
        tensors.logprob_token_ids[:, 0] = -1
        return tensors

    LogprobsTensors.empty_cpu = staticmethod(marked)
