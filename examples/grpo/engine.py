"""SkyRL's Tinker engine as a process: where it is installed, how it starts, when it is ready.

The engine trains LoRA adapters with JAX and samples from them, on a CPU too. It does one thing at
a time. Its interpreter is Python 3.12 in an environment of its own, which ``make grpo`` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import httpx

from reward_serve.embedded.bundled import cache_folder

RANK = 16
API_KEY = "tml-local"  # the client wants one; the engine does not check it
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


def command(model: Path, home: Path, port: int, micro_batch: int, sequences: int) -> list[str]:
    """What starts the engine's server on loopback.

    Args:
        model: the base model's folder.
        home: where it keeps its database and checkpoints.
        port: on which it answers.
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
        *("--host", "127.0.0.1"),
        *("--port", str(port)),
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
        model: the base model's folder.
        home: for its database, checkpoints and log; kept between runs.
        port: on which it answers.
        micro_batch: sequences of a training pass.
        sequences: of a sampling batch.

    Raises:
        EngineError: it is not installed, or did not become ready; names its log.
    """

    def __init__(
        self, model: Path, home: Path, port: int, micro_batch: int = 8, sequences: int = 24
    ) -> None:
        installed = environment()
        home.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{port}"
        self._log = home / "engine.log"
        with self._log.open("ab") as log:
            self._process = _started(
                command(model, home, port, micro_batch, sequences), variables(installed), log
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

    def _await_ready(self) -> None:
        began = time.monotonic()
        while not _answers(self.url):
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


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v1/healthz", timeout=2).is_success
    except httpx.HTTPError:
        return False
