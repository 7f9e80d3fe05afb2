"""A Tinker endpoint with a fake engine: it keeps states as files, and learns nothing.

Run as ``fake_endpoint.py ... --host HOST --port PORT --checkpoints-base FOLDER``, as SkyRL's is. A
sampling request takes ``FAKE_TINKER_DELAY_S``.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tinker.proto import tinker_public_pb2 as proto

from deployments.local import free_port

_NOTHING = {
    "config": {},
    "create_session": {"session_id": "session"},
    "session_heartbeat": {},
    "telemetry": {"status": "accepted"},
}


class Engine:
    """Models, each a number of optimiser steps, and what was asked of them."""

    def __init__(self, folder: Path, delay_s: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._delay_s = folder, delay_s
        self._numbers = itertools.count()
        self._steps: dict[str, int] = {}
        self._sessions: dict[str, str] = {}
        self._results: dict[str, Any] = {}
        self._busy = threading.Lock()

    def ask(self, path: str, body: Any) -> Any:
        name = path.rpartition("/")[2]
        return _NOTHING[name] if name in _NOTHING else getattr(self, name)(body)

    def create_model(self, body: Any) -> Any:
        model = f"model_{os.getpid()}_{next(self._numbers)}"
        self._steps[model] = 0
        return self._later({"model_id": model, "type": "create_model"})

    def create_sampling_session(self, body: Any) -> Any:
        model, kind, name = body["model_path"].removeprefix("tinker://").split("/")
        assert kind == "sampler_weights"
        if not self._file(model, "sampler_weights", name).exists():
            raise HTTPException(404, "Checkpoint not found")
        return {"sampling_session_id": f"{model}-{next(self._numbers)}"}

    def asample(self, body: Any) -> Any:
        rng = Random(body["sampling_params"]["seed"])
        letters = [
            [260 + rng.randrange(20)] * rng.randint(1, 4) for _ in range(body["num_samples"])
        ]
        message = proto.SampleResponse()
        for tokens in letters:
            sequence = message.sequences.add(stop_reason=proto.STOP_REASON_STOP)
            sequence.tokens = struct.pack(f"<{len(tokens)}i", *tokens)
            sequence.logprobs = struct.pack(f"<{len(tokens)}f", *[-1.0] * len(tokens))
        if body["num_samples"] > 1:  # not for evaluations, which ask for hundreds
            with self._busy:
                time.sleep(self._delay_s)
        return self._later(message.SerializeToString())

    def forward_backward(self, body: bytes) -> Any:
        message = proto.ForwardBackwardRequest()
        message.ParseFromString(body)
        if message.model_id not in self._steps:
            raise HTTPException(404, "Model not found")
        output = proto.ForwardBackwardOutput(loss_fn_output_type="scalar")
        return self._later(output.SerializeToString())

    def optim_step(self, body: Any) -> Any:
        self._steps[body["model_id"]] += 1
        return self._later({"metrics": {"skyrl.ai/grad_norm": 1.0}})

    def save_weights(self, body: Any) -> Any:
        self._save(body, "weights")
        path = f"tinker://{body['model_id']}/weights/{body['path']}"
        return self._later({"path": path, "type": "save_weights"})

    def save_weights_for_sampler(self, body: Any) -> Any:
        self._save(body, "sampler_weights")
        path = f"tinker://{body['model_id']}/{body['path']}"  # as SkyRL's, without its kind
        return self._later({"path": path, "type": "save_weights_for_sampler"})

    def load_weights(self, body: Any) -> Any:
        model, kind, name = body["path"].removeprefix("tinker://").split("/")
        self._steps[body["model_id"]] = int(self._file(model, kind, name).read_text())
        return self._later({"path": body["path"], "type": "load_weights"})

    def weights_info(self, body: Any) -> Any:
        model, kind, name = body["tinker_path"].removeprefix("tinker://").split("/")
        if not self._file(model, kind, name).exists():
            raise HTTPException(404, f"Checkpoint not found: {model}/{name}")
        return {"base_model": "fake", "is_lora": True, "lora_rank": 16}

    def retrieve_future(self, body: Any) -> Any:
        if body["request_id"] not in self._results:
            raise HTTPException(404, "Future not found")
        return self._results[body["request_id"]]

    def delete(self, path: str) -> None:
        *_, model, _, kind, name = path.split("/")
        file = self._file(model, kind, name)
        if not file.exists():
            raise HTTPException(404, "Checkpoint not found")
        file.unlink()

    def _save(self, body: Any, kind: str) -> None:
        file = self._file(body["model_id"], kind, body["path"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(self._steps[body["model_id"]]))
        if kind == "sampler_weights":
            file.with_name(f"{file.name}.probe").touch()

    def _later(self, result: Any) -> Any:
        request_id = str(next(self._numbers))
        self._results[request_id] = result
        return {"request_id": request_id}

    def _file(self, model: str, kind: str, name: str) -> Path:
        folder = self._folder / model
        return (folder / kind if kind == "sampler_weights" else folder) / f"{name}.tar.gz"


class FakeEndpoint:
    """The endpoint in this process, on a free port of loopback."""

    def __init__(
        self, folder: Path, delay_s: float = 0.0, address: tuple[str, int] | None = None
    ) -> None:
        self.engine = Engine(folder, delay_s)
        host, port = address or ("127.0.0.1", free_port())
        routes = [Route("/{path:path}", self._answer, methods=["GET", "POST", "DELETE"])]
        config = uvicorn.Config(Starlette(routes=routes), host, port, log_level="error")
        self.server = uvicorn.Server(config)
        self.url = f"http://{host}:{port}"

    async def _answer(self, request: Request) -> Response:
        path, data = request.url.path, await request.body()
        call: Callable[[], Any]
        if request.method == "DELETE":
            call = partial(self.engine.delete, path)
        elif request.method == "POST":
            is_proto = "protobuf" in request.headers.get("content-type", "")
            call = partial(self.engine.ask, path, data if is_proto else json.loads(data))
        else:
            return JSONResponse({"status": "ok"})
        try:
            answer = await run_in_threadpool(call)
        except (AttributeError, KeyError) as error:
            return JSONResponse({"detail": f"Not found: {error}"}, 404)
        except HTTPException as error:
            return JSONResponse({"detail": error.detail}, error.status_code)
        if isinstance(answer, bytes):
            return Response(answer, media_type="application/x-protobuf")
        return Response(status_code=204) if answer is None else JSONResponse(answer)

    def __enter__(self) -> FakeEndpoint:
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.force_exit = self.server.should_exit = True
        self._thread.join()


def _main(arguments: list[str]) -> None:
    options = dict(itertools.pairwise(arguments))
    folder = Path(options["--checkpoints-base"])
    delay_s = float(os.environ.get("FAKE_TINKER_DELAY_S", "0"))
    fake = FakeEndpoint(folder, delay_s, (options["--host"], int(options["--port"])))
    (folder / "pid").write_text(str(os.getpid()))
    fake.server.run()


if __name__ == "__main__":
    _main(sys.argv[1:])
