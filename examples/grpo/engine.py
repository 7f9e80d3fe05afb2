"""SkyRL's Tinker engine as a process: where it is installed, how it starts, when it is ready.

The engine trains LoRA adapters with JAX and samples from them, one request at a time, also on a
CPU. It runs in its own Python 3.12 environment, which ``make grpo`` creates.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ray.util import get_node_ip_address

from deployments.local import free_port
from examples.grpo.endpoint import answers
from reward_serve.engines.bundled import cache_folder
from reward_serve_judge.weights import prepare_bundled

RANK = 16
_READY_TIMEOUT_S = 300.0
_POLL_S = 0.5
# For the base model, the run and its warm-up.
_ADAPTERS = 3


class EngineError(RuntimeError):
    """The engine is not installed or did not start; the message has the remedy."""


def environment() -> Path:
    """The folder of the engine's environment, created by ``make grpo``.

    Raises:
        EngineError: the engine is not installed.
    """
    folder = cache_folder() / "tinker"
    if not (folder / ".installed").exists():
        raise EngineError(f"{folder}: SkyRL's engine is not installed; make {folder}/.installed")
    return folder


def command(
    model: Path, home: Path, address: tuple[str, int], micro_batch: int, sequences: int
) -> list[str]:
    """The command that starts the engine's server; smaller sampling batches are padded."""
    backend = {
        "max_lora_adapters": _ADAPTERS,
        "max_lora_rank": RANK,
        "train_micro_batch_size": micro_batch,
        "sample_max_num_sequences": sequences,
    }
    # The server starts its engine with the `uv run` arguments of its parent process.
    start = ["uv", "run", "--no-project", "--active", "-m", "skyrl.tinker.api"]
    return [
        *start,
        *("--base-model", str(model)),
        *("--backend", "jax"),
        *("--backend-config", json.dumps(backend)),
        *("--host", address[0]),
        *("--port", str(address[1])),
        *("--checkpoints-base", str(home / "checkpoints")),
        *("--database-url", f"sqlite:///{home / 'tinker.db'}"),
    ]


def variables(installed: Path) -> dict[str, str]:
    """The engine's environment variables, with JAX's compilation cache enabled."""
    overrides = {
        "VIRTUAL_ENV": str(installed),
        "PATH": f"{installed / 'bin'}:{os.environ.get('PATH', '')}",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache_folder() / "jax"),
        "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "1",
    }
    dropped = ("PYTHONPATH", "PYTHONHOME")  # in Ray's workers, these are for another interpreter
    return {name: value for name, value in os.environ.items() if name not in dropped} | overrides


class Engine:
    """An engine owned by this process; it ends with the process.

    Its database, checkpoints and log are in ``home``. An ``exposed`` one listens on the node's
    address, without an API key, rather than on loopback.

    Raises:
        EngineError: it is not installed or did not become ready; the message names its log.
    """

    def __init__(
        self, home: Path, micro_batch: int = 8, sequences: int = 24, exposed: bool = False
    ) -> None:
        host = get_node_ip_address() if exposed else "127.0.0.1"
        installed = environment()
        model = prepare_bundled(adapter=None)
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        prune(home)
        port = free_port()
        self.url = f"http://{host}:{port}"
        self._log = home / "engine.log"
        tether = str(Path(__file__).with_name("tethered.py"))
        start = command(model, home, (host, port), micro_batch, sequences)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, tether, *start],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables(installed),
                start_new_session=True,  # shields it from Ctrl-C and the owner's group's signals
            )
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def __repr__(self) -> str:
        return "engine"

    def address(self) -> str:
        """Its URL."""
        return self.url

    def alive(self) -> bool:
        """Whether its process is running."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop it and everything it started."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()
        prune(self._home)

    def _await_ready(self) -> None:
        began = time.monotonic()
        while not answers(self.url):
            if not self.alive() or time.monotonic() - began > _READY_TIMEOUT_S:
                state = "is not ready" if self.alive() else "ended"
                after_s = time.monotonic() - began
                raise EngineError(f"SkyRL's engine {state} after {after_s:.0f} s; see {self._log}")
            time.sleep(_POLL_S)


def prune(home: Path) -> None:
    """Remove sampler weights, which a resumed run saves again; the engine must be stopped.

    The engine leaves a file behind for each checkpoint that it deletes.
    """
    for folder in (home / "checkpoints").glob("*/sampler_weights"):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # not empty if there are saved states
            folder.parent.rmdir()
