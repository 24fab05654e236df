"""Servers on loopback, each a process with a directory of its own.

What the interop tests, the benchmarks and `./dev run` have in common. Knows two programs: lockstepd, and Debian's
Apache ZooKeeper, against which the tests themselves are tested. Python's standard library only. Servers that are brokers
too: brokers.py.
"""

import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")
ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def port_is_free(port):
    """Whether a server could listen on `port`. Connections of a former server in TIME_WAIT do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


class PortRange:
    """A hundred ports that no other test or benchmark on this machine uses, as long as this process lives: a server that is
    killed and restarted must find its port again, and the system's own choice would give it away meanwhile."""

    LOCKS = Path(tempfile.gettempdir()) / f"lockstep-ports-{os.getuid()}"
    SIZE = 100

    def __init__(self):
        self.LOCKS.mkdir(exist_ok=True)
        for first in range(20000, 32000, self.SIZE):  # below the ports that the system gives to clients
            self.lock = open(self.LOCKS / str(first), "w")
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.lock.close()
                continue
            self.first, self.taken = first, set()
            return
        raise AssertionError(f"all port ranges are in use; locks in {self.LOCKS}")

    def next(self):
        port = free_port(self.first, self.taken)
        if port >= self.first + self.SIZE:
            raise AssertionError(f"no free port from {self.first} on")
        return port

    def give_back(self, ports):
        self.taken -= set(ports)


def free_port(first, taken):
    """The first free port from `first` on that is not in `taken`; adds it there."""
    port = first
    while port in taken or not port_is_free(port):
        port += 1
    taken.add(port)
    return port


def four_letter(port, word, timeout=3):
    """The answer to a four-letter word, or None if nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(word.encode())
            answer = b""
            while True:
                data = connection.recv(4096)
                if not data:
                    return answer.decode()
                answer += data
    except OSError:
        return None


def mode(port):
    """'leader', 'follower', 'standalone', or None while the server does not serve."""
    for line in (four_letter(port, "srvr") or "").splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ")
    return None


def wait_until(condition, seconds, what):
    """Returns the first true value of condition(); fails after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def zoo_cfg(server, members, settings):
    """The text of the zoo.cfg of `server`: of the roles that it has ports for. Settings are keys and values beyond the
    obvious ones."""
    lines = [f"dataDir={server.data}"]
    if server.client_port:
        lines += ["clientPortAddress=127.0.0.1", f"clientPort={server.client_port}"]
    if server.broker_port:
        lines += [f"broker.id={server.id}", f"listeners=PLAINTEXT://127.0.0.1:{server.broker_port}"]
    lines += [f"{key}={value}" for key, value in settings.items()]
    if server.client_port and len(members) > 1:
        lines += [f"server.{m.id}=127.0.0.1:{m.peer_port}:{m.election_port}" for m in members]
    return "\n".join(lines) + "\n"


class Server:
    """One server: its ports, its directory, and its process while it has one. `ports` are those of coordination (for
    clients, for followers, for votes), or None three times; a fourth one makes it a broker."""

    def __init__(self, program, number, directory, ports):
        self.program = program
        self.id = number
        self.directory = Path(directory)
        self.data = self.directory / "data"
        self.config = self.directory / "zoo.cfg"
        self.log = self.directory / "log"
        self.ports = ports
        self.client_port, self.peer_port, self.election_port = ports[:3]
        self.broker_port = ports[3] if len(ports) > 3 else None
        self.process = None

    @property
    def address(self):
        return f"127.0.0.1:{self.client_port}"

    @property
    def broker_address(self):
        return f"127.0.0.1:{self.broker_port}"

    def configure(self, members, settings):
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "myid").write_text(f"{self.id}\n")
        self.config.write_text(zoo_cfg(self, members, settings))

    def start(self, stderr=None):
        """Starts the process, in a group of its own so that Ctrl-C reaches only us. Its output is added to the log
        unless `stderr` says otherwise."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=stderr or log,
                cwd=self.directory, start_new_session=True)

    def command(self):
        return command(self.program, self.config)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """SIGKILL: nothing is flushed, nothing is said."""
        self.process.kill()
        self.process.wait()

    def pause(self):
        """SIGSTOP: its connections stay open, and nobody answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self, timeout=20):
        """SIGTERM. Returns the exit status."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"server {self.id} did not stop within {timeout} s of SIGTERM")

    def mode(self):
        return mode(self.client_port) if self.client_port and self.running() else None

    def log_tail(self, lines=15):
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def command(program, config):
    """The command line that runs `program` ("zookeeper", or the path of a lockstepd) on a zoo.cfg."""
    if program != "zookeeper":
        return [str(program), str(config)]
    # /etc/zookeeper/conf_example configures its logging.
    return ["java", "-Xmx1g", "-Dzookeeper.log.dir=.", "-Dzookeeper.admin.enableServer=false",
            "-cp", f"/etc/zookeeper/conf_example:{ZOOKEEPER_JAR}", ZOOKEEPER_MAIN, str(config)]


class Ensemble:
    """Servers 1 to `size` below `directory`, on free ports. A context manager: leaves no process behind."""

    ports = None  # of this process
    PORTS = 3  # of each server

    def __init__(self, program, directory, size, settings=None):
        Ensemble.ports = Ensemble.ports or PortRange()
        self.servers = []
        self.settings = {"tickTime": 500, "initLimit": 20, "syncLimit": 10, "4lw.commands.whitelist": "*",
                         **(settings or {})}
        for number in range(1, size + 1):
            ports = [self.ports.next() for _ in range(self.PORTS)]
            self.servers.append(self.new_server(program, number, Path(directory) / f"server{number}", ports))
        for server in self.servers:
            server.configure(self.servers, self.settings)

    def new_server(self, program, number, directory, ports):
        return Server(program, number, directory, ports)

    def __enter__(self):
        for server in self.servers:
            server.start()
        try:
            self.wait_for_all()
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            if server.running():
                server.kill()
            self.ports.give_back(server.ports)

    @property
    def hosts(self):
        return ",".join(server.address for server in self.servers)

    def leader(self):
        """The server that says so, or None."""
        return next((s for s in self.servers if s.mode() in ("leader", "standalone")), None)

    def wait_for_leader(self, seconds=30):
        return wait_until(self.leader, seconds, "a leader")

    def wait_for_all(self, seconds=60):
        """Every server that runs serves."""
        self.wait_for_leader(seconds)
        for server in self.servers:
            if server.process is not None:
                wait_until(lambda: server.mode() or self._died(server), seconds, f"server {server.id} serves")

    @staticmethod
    def _died(server):
        if not server.running():
            raise AssertionError(f"server {server.id} ended with status {server.process.returncode}:\n"
                                 f"{server.log_tail()}")
        return False


def default_program():
    """Which server to test: $LOCKSTEP_SERVER ("zookeeper" or a path), or the lockstepd of $LOCKSTEP_BUILD."""
    build = os.environ.get("LOCKSTEP_BUILD", ROOT / "build" / "release")
    return os.environ.get("LOCKSTEP_SERVER") or Path(build).resolve() / "lockstepd"
