"""SkyRL's Tinker engine as a process: where it is installed, how it starts, when it is ready.

The engine trains LoRA adapters with JAX and samples from them, on a CPU too. It does one thing at
a time. Its interpreter is Python 3.12 in an environment of its own, which ``make grpo`` makes.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from ray.util import get_node_ip_address

from examples.grpo.endpoint import answers
from reward_serve.embedded.bundled import cache_folder, prepare_bundled

RANK = 16
_READY_TIMEOUT_S = 300.0
_POLL_S = 0.5
# The base model's, the run's, and that of its warm-up.
_ADAPTERS = 3


class EngineError(RuntimeError):
    """The engine cannot start here; says why and what to do."""


def environment() -> Path:
    """The engine's environment, made by ``make grpo``.

    Raises:
        EngineError: it is not there.
    """
    folder = cache_folder() / "tinker"
    if not (folder / ".installed").exists():
        raise EngineError(f"{folder}: SkyRL's engine is not installed; make {folder}/.installed")
    return folder


def command(
    model: Path, home: Path, address: tuple[str, int], micro_batch: int, sequences: int
) -> list[str]:
    """What starts the engine's server.

    Args:
        model: the base model's folder.
        home: where it keeps its database and checkpoints.
        address: host and port on which it answers.
        micro_batch: sequences of a training pass.
        sequences: of a sampling batch; fewer are padded to it.
    """
    backend = {
        "max_lora_adapters": _ADAPTERS,
        "max_lora_rank": RANK,
        "train_micro_batch_size": micro_batch,
        "sample_max_num_sequences": sequences,
    }
    # The server starts its engine by its own parent's `uv run` arguments.
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
    """The engine's environment variables, with a cache of what JAX compiles."""
    own = {
        "VIRTUAL_ENV": str(installed),
        "PATH": f"{installed / 'bin'}:{os.environ.get('PATH', '')}",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache_folder() / "jax"),
        "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "1",
    }
    dropped = ("PYTHONPATH", "PYTHONHOME")  # Ray's workers have those of another interpreter
    return {name: value for name, value in os.environ.items() if name not in dropped} | own


class Engine:
    """An engine that this process owns, and that ends with it.

    Args:
        home: for its database, checkpoints and log; kept between runs.
        micro_batch: sequences of a training pass.
        sequences: of a sampling batch.
        exposed: to the other nodes of the cluster, else it answers on loopback alone. It asks
            nobody for a key.

    Raises:
        EngineError: it is not installed, or did not become ready; names its log.
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
        port = _free_port(host)
        self.url = f"http://{host}:{port}"
        self._log = home / "engine.log"
        with self._log.open("ab") as log:
            self._process = _started(
                command(model, home, (host, port), micro_batch, sequences),
                variables(installed),
                log,
            )
        try:
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def address(self) -> str:
        """Where it answers."""
        return self.url

    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it and all that it started."""
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


def _started(
    what: list[str], environment: dict[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    tether = str(Path(__file__).with_name("tethered.py"))
    return subprocess.Popen(
        [sys.executable, tether, *what],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,  # neither Ctrl-C nor the end of the owner's group reaches it
    )


def prune(home: Path) -> None:
    """Remove what was saved to sample from; a run that goes on saves it anew.

    The engine leaves a file behind for each of those that it deletes. Only while it is stopped.
    """
    for folder in (home / "checkpoints").glob("*/sampler_weights"):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # states are kept
            folder.parent.rmdir()


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port
