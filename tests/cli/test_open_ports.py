from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reward_serve.cli.open_ports import PROC, has_network, open_ports, replica_processes

REPLICA = "ray::ServeReplica:reward:rule"
LISTEN = """
import socket, sys
listeners = [socket.create_server((host, 0)) for host in sys.argv[1:]]
print(*(listener.getsockname()[1] for listener in listeners), flush=True)
sys.stdin.read()
"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:9D47 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1
   1: 0100007F:9D48 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 78 1
   2: 00000000:9D49 0200A8C0:0050 01 00000000:00000000 00:00000000 00000000     0        0 79 1
   3: 00000000:9D4A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 80 1
"""
TCP6 = f"""\
  sl  local_address                         remote_address                        st
   0: {"0" * 32}:9D4B {"0" * 32}:0000 0A 0:0 0:0 0 0 0 81
"""
ROUTES = "Iface Destination Gateway\n"
LOOPBACK6 = "00000000000000000000000000000001 01 80 10 80       lo\n"
ETHERNET6 = "fd000000000000000000000000000002 04 40 00 82     eth0\n"


@contextmanager
def listening(title: str, *hosts: str) -> Iterator[tuple[Path, list[int]]]:
    """A process of this title that listens on these addresses, and its ports."""
    with subprocess.Popen(
        [title, "-c", LISTEN, *hosts],
        executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        ports = [int(port) for port in process.stdout.readline().split()]
        yield PROC / str(process.pid), ports
        process.communicate(timeout=10)


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    """A replica's folder in a ``/proc`` of files, of a machine with a network."""
    process = tmp_path / "4711"
    (process / "net").mkdir(parents=True)
    (process / "fd").mkdir()
    (process / "cmdline").write_bytes(REPLICA.encode() + bytes(40))
    (process / "net" / "tcp").write_text(TCP, encoding="utf-8")
    (process / "net" / "tcp6").write_text(TCP6, encoding="utf-8")
    (process / "net" / "route").write_text(f"{ROUTES}eth0 0 0\n", encoding="utf-8")
    for descriptor, target in enumerate([77, 78, 79, 81]):
        (process / "fd" / str(descriptor)).symlink_to(f"socket:[{target}]")
    (process / "fd" / "9").symlink_to("/dev/null")
    return process


@pytest.mark.skipif(not has_network(PROC / "self" / "net"), reason="there is only loopback here")
def test_a_replica_that_listens_on_all_interfaces_is_found() -> None:
    with listening(REPLICA, "0.0.0.0", "127.0.0.1") as (process, ports):
        assert process in replica_processes()
        assert open_ports(process) == {ports[0]}


def test_a_process_that_is_no_replica_is_not_found() -> None:
    with listening("ray::IDLE", "127.0.0.1") as (process, _):
        assert process.exists()
        assert process not in replica_processes()


def test_its_own_listeners_on_all_interfaces_count(replica: Path) -> None:
    assert replica_processes(replica.parent) == [replica]
    assert open_ports(replica) == {0x9D47, 0x9D4B}


@pytest.mark.parametrize(
    ("routes", "addresses", "found"),
    [
        pytest.param(ROUTES, LOOPBACK6, False, id="loopback"),
        pytest.param(ROUTES, None, False, id="loopback without IPv6"),
        pytest.param(f"{ROUTES}eth0 0 0\n", None, True, id="IPv4"),
        pytest.param(ROUTES, LOOPBACK6 + ETHERNET6, True, id="IPv6"),
    ],
)
def test_ports_count_where_there_is_more_than_loopback(
    routes: str, addresses: str | None, found: bool, replica: Path
) -> None:
    (replica / "net" / "route").write_text(routes, encoding="utf-8")
    if addresses is not None:
        (replica / "net" / "if_inet6").write_text(addresses, encoding="utf-8")
    assert bool(open_ports(replica)) is found


def test_a_process_that_has_ended_has_no_ports(replica: Path, tmp_path: Path) -> None:
    assert open_ports(tmp_path / "4712") == set()
    (replica / "cmdline").unlink()
    assert replica_processes(tmp_path) == []


def test_without_proc_no_replica_can_be_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replica_processes(tmp_path / "proc")
