"""Finds the ports that this machine's Serve replicas open on all interfaces.

A replica has two, indistinguishable from outside: the Ray worker's gRPC server, and a Serve server
that unpickles what it receives (docs/threat-model.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
REPLICA = b"ray::ServeReplica:"  # prefix of a replica's command line
LISTENING = "0A"


def replica_processes(proc: Path = PROC) -> list[Path]:
    """The ``proc`` folders of Serve replicas.

    Raises:
        OSError: ``proc`` does not exist or cannot be read.
    """
    return [
        process
        for process in proc.iterdir()
        if process.name.isdecimal() and _content(process / "cmdline").startswith(REPLICA)
    ]


def open_ports(process: Path) -> set[int]:
    """The ports that a process opens on all interfaces; none if it has only loopback.

    Raises:
        PermissionError: the process belongs to another user.
    """
    files = set(_open_files(process))
    net = process / "net"
    if not has_network(net):
        return set()
    return {port for inode, port in _wildcard_sockets(net) if f"socket:[{inode}]" in files}


def has_network(net: Path) -> bool:
    """Whether a network namespace has an interface other than loopback."""
    routes = {fields[0] for fields in _rows(net / "route")[1:]}
    addresses = {fields[-1] for fields in _rows(net / "if_inet6")}
    return bool((routes | addresses) - {"lo"})


def _wildcard_sockets(net: Path) -> Iterator[tuple[str, int]]:
    """The inode and port of each socket that listens on 0.0.0.0 or [::]."""
    for fields in _rows(net / "tcp") + _rows(net / "tcp6"):
        address, _, port = fields[1].partition(":")
        if fields[3] == LISTENING and set(address) == {"0"}:
            yield fields[9], int(port, 16)


def _open_files(process: Path) -> Iterator[str]:
    try:
        descriptors = list((process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # the process has ended
        return
    for descriptor in descriptors:
        try:
            yield str(descriptor.readlink())
        except (FileNotFoundError, ProcessLookupError):
            continue  # closed in the meantime


def _rows(table: Path) -> list[list[str]]:
    return [line.split() for line in _content(table).decode().splitlines()]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended, or the kernel has no IPv6
        return b""
