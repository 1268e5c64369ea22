"""Servers as processes: started detached, recorded in the data folder, stopped from that record.

A record `NODE.pid` has the process ID, the start time of that process and its boot, so that no other process with the
same ID is ever killed.
"""

import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

from .fault import Fault

START_LIMIT_S = 120
STOP_LIMIT_S = 60


def data_folder(path):
    """Creates and checks the data folder of a server."""
    folder = pathlib.Path(path).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Fault(f"cannot write into the data folder {folder}: {error.strerror}; give another --data") from None
    return folder


def free_port():
    """A TCP port that nobody listens on now, and that the kernel does not give to clients.

    So a node that is started again finds its port free.
    """
    clients = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    others = [port for port in range(1024, 65536) if not int(clients[0]) <= port <= int(clients[1])]
    # If clients can get every port, use any free one.
    for port in [*random.sample(others, min(len(others), 100)), 0]:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return listener.getsockname()[1]
    raise Fault("no TCP port is free")


def kept_port(folder, node):
    """The port of an additional node. It is chosen once and stays the same."""
    file = folder / f"{node}.port"
    if not file.exists():
        file.write_text(f"{free_port()}\n")
    return int(file.read_text())


def require_free(port):
    """Fails if the port is in use."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise Fault(f"cannot listen on 127.0.0.1:{port}: {error.strerror}; give another --port") from None


def launch(folder, node, command, ready, *, stop=signal.SIGTERM, limit_s=START_LIMIT_S, **options):
    """Starts a node, unless it runs, and waits until `ready()` is true, for at most `limit_s`.

    Its output goes to `NODE.log` in `folder`. It has its own session and none of our files, so that the
    caller's pipe closes when this script ends. `stop` is the signal that shuts it down cleanly.
    """
    if alive(folder, node):
        return
    log = folder / f"{node}.log"
    with open(log, "ab") as output:
        said_before = output.tell()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **options,
        )
    _record(folder, node, process.pid, stop)
    until = time.monotonic() + limit_s
    while not ready():
        code = process.poll()
        if code is not None:
            (folder / f"{node}.pid").unlink()
            raise Fault(f"{node} ended with code {code} before it was ready; {log} ends in:\n{_tail(log, said_before)}")
        if time.monotonic() > until:
            kill(folder, node)
            raise Fault(f"{node} was not ready after {limit_s} s and was killed; {log} ends in:\n{_tail(log, said_before)}")
        time.sleep(0.02)


def wait(condition, otherwise, limit_s=START_LIMIT_S):
    """Waits until a condition is true. `otherwise` is the error if that takes too long."""
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            raise Fault(f"{otherwise} (waited for {limit_s} s)")
        time.sleep(0.02)


def _tail(log, offset):
    with open(log, "rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace").strip()[-3000:]


def answers(port, question=b"", expected=b""):
    """Whether something on this port accepts a connection, and its answer to `question` contains `expected`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(question)
            answer = b""
            while expected not in answer:
                piece = connection.recv(65536)
                if not piece:
                    return False
                answer += piece
            return True
    except OSError:
        return False


def fetch(port, path):
    """The body of the answer to a GET of this path with status 200; None for anything else."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.read() if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def nodes(folder):
    """The nodes that have a record."""
    return sorted(path.stem for path in folder.glob("*.pid"))


def alive(folder, node):
    """Whether the recorded process of a node still runs."""
    record = _read(folder, node)
    return record is not None and _started(record["pid"]) == record["started"]


def terminate(folder, node):
    """Shuts a node down cleanly. A node that does not end in time is killed, which is a fault."""
    record = _read(folder, node)
    if record is None:
        return
    if alive(folder, node):
        os.kill(record["pid"], record["stop"])
        until = time.monotonic() + STOP_LIMIT_S
        while alive(folder, node):
            if time.monotonic() > until:
                kill(folder, node)
                raise Fault(f"{node} did not stop within {STOP_LIMIT_S} s and was killed; see {folder / node}.log")
            time.sleep(0.02)
    (folder / f"{node}.pid").unlink(missing_ok=True)


def kill(folder, node):
    """Kills a node and all processes that it started with SIGKILL, as in a crash, and waits until they are gone."""
    record = _read(folder, node)
    if record is None:
        return
    if alive(folder, node):
        family = [(pid, _started(pid)) for pid in _family(record["pid"])]
        for pid, _ in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while any(started and _started(pid) == started for pid, started in family):
            time.sleep(0.005)
    (folder / f"{node}.pid").unlink(missing_ok=True)


def send(folder, node, number):
    """Sends a signal to a node and all processes that it started."""
    record = _read(folder, node)
    if record is not None and alive(folder, node):
        for pid in _family(record["pid"]):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def _record(folder, node, pid, stop):
    record = {"pid": pid, "started": _started(pid), "stop": int(stop)}
    unfinished = folder / f".{node}.record"
    unfinished.write_text(json.dumps(record) + "\n")
    unfinished.rename(folder / f"{node}.pid")


def _read(folder, node):
    try:
        return json.loads((folder / f"{node}.pid").read_text())
    except (OSError, ValueError):
        return None


def _started(pid):
    """When a process started and in which boot; None for one that is gone or only waits to be reaped.

    While a process is being killed, its first thread may be a zombie while other threads still end and
    hold its sockets open. Such a process is not gone yet.
    """
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        if fields[0] in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1:
            return None
    except OSError:
        return None
    return f"{fields[19]}@{boot}"


def _family(pid):
    """A process and its descendants, parents first."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    family = [pid]
    for member in family:
        family += children.get(member, [])
    return family
