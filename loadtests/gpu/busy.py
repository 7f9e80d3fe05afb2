"""A process that keeps the rest of a GPU busy, or full: ``python -m loadtests.gpu.busy``.

It prints ``ready`` once it holds its memory, works until its standard input is closed, and then
prints its matrix products per second.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Annotated, Any

import typer


def main(
    fill: Annotated[bool, typer.Option(help="Take all free memory, and compute nothing.")] = False,
    share: Annotated[float, typer.Option(help="Share of the GPU's memory to hold.")] = 0.5,
) -> None:
    """Hold memory, and multiply matrices."""
    import torch

    on_gpu = torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    ended = threading.Event()
    threading.Thread(target=_wait, args=(ended,), daemon=True).start()
    size = 8192 if on_gpu else 256
    kind = torch.bfloat16 if on_gpu else torch.float32
    left, right = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    held = _held(torch, fill, share) if on_gpu else None
    typer.echo("ready")
    products, began = 0, time.monotonic()
    if fill:
        ended.wait()
    while not fill:
        for _ in range(8):
            torch.matmul(left, right)
        if on_gpu:
            torch.cuda.synchronize()
        products += 8
        if ended.is_set():
            break
    typer.echo(f"{products / (time.monotonic() - began):.3f}")
    del held


def _wait(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _held(torch: Any, fill: bool, share: float) -> Any:
    free, total = torch.cuda.mem_get_info()
    if not fill:
        return torch.empty(int(share * total), dtype=torch.uint8, device="cuda")
    blocks, size = [], free
    while size >= 2**20:
        try:
            blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            size //= 2
    return blocks


if __name__ == "__main__":
    typer.run(main)
