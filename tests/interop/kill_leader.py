"""The leader is killed with SIGKILL again and again, and restarted, while stock clients write.

Writers go through kazoo and through ZooKeeper's own C client. Each keeps a record of what was acknowledged; at the end
all servers must hold all of it, in order. Sessions of living clients survive, ephemeral nodes of dead ones vanish.
"""

import queue
import re
import subprocess
import sys
import threading
import time

from kazoo.exceptions import BadVersionError, ConnectionLoss, OperationTimeoutError, SessionExpiredError

from cases import case, check, check_equal, main
from ensemble import wait_until

CLI_MT = "/usr/lib/zookeeper/bin/cli_mt"
UNKNOWN = (ConnectionLoss, OperationTimeoutError)  # the write may have happened, or not


class Writer(threading.Thread):
    """Writes 1, 2, 3, …, each once, until it is told to stop. Knows which were acknowledged and which are unknown."""

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.acknowledged = []
        self.unknown = []
        self.stopping = threading.Event()
        self.error = None

    def run(self):
        try:
            number = 0
            while not self.stopping.is_set():
                number += 1
                self.write(number)
        except Exception as error:
            self.error = error
            self.stopping.set()

    def check_log(self, found):
        """`found`: what the servers hold, in order."""
        check_equal(found, sorted(set(found)), f"{self.name}: the order of what is stored, each once")
        lost = set(self.acknowledged) - set(found)
        check(not lost, f"{self.name}: acknowledged writes are lost: {sorted(lost)[:20]}")
        phantom = set(found) - set(self.acknowledged) - set(self.unknown)
        check(not phantom, f"{self.name}: writes that were refused are stored: {sorted(phantom)[:20]}")


class LogWriter(Writer):
    """Appends to a directory of sequential nodes, several at a time, through kazoo."""

    def __init__(self, context, hosts, index, window):
        super().__init__(f"log{index}")
        self.zk = context.client(hosts)
        self.session = self.zk.client_id
        self.path = f"/{self.name}"
        self.window = window
        self.flying = []

    def prepare(self):
        self.zk.retry(self.zk.ensure_path, self.path)
        self.zk.retry(self.zk.create, self.path + "-alive", ephemeral=True)

    def write(self, number):
        self.flying.append((number, self.zk.create_async(f"{self.path}/n-", b"%d" % number, sequence=True)))
        if len(self.flying) >= self.window or self.stopping.is_set():
            self.collect()

    def collect(self):
        for number, result in self.flying:
            try:
                result.get(timeout=60)
                self.acknowledged.append(number)
            except UNKNOWN:
                self.unknown.append(number)
        self.flying = []

    def check(self, readers):
        self.check_session()
        for reader in readers:
            names = sorted(reader.get_children(self.path))
            self.check_log([int(result.get(timeout=30)[0]) for result in
                            [reader.get_async(f"{self.path}/{name}") for name in names]])

    def check_session(self):
        check(not self.zk.lost.is_set(), f"{self.name}: the session was lost: {self.zk.states}")
        check_equal(self.zk.client_id, self.session, f"{self.name}: the session")
        owner = self.zk.retry(self.zk.exists, self.path + "-alive")
        check(owner is not None, f"{self.name}: the ephemeral node of a living session is gone")
        check_equal(owner.ephemeralOwner, self.session[0], f"{self.name}: the owner of the ephemeral node")


class VersionWriter(Writer):
    """Sets one node with the version it expects: each success must be exactly one step. Through kazoo."""

    def __init__(self, context, hosts, index):
        super().__init__(f"version{index}")
        self.zk = context.client(hosts)
        self.session = self.zk.client_id
        self.path = f"/{self.name}"

    def prepare(self):
        self.zk.retry(self.zk.create, self.path, b"0")
        self.version = 0
        self.last = 0

    def write(self, number):
        try:
            stat = self.zk.set(self.path, b"%d" % number, version=self.version)
            check_equal(stat.version, self.version + 1, f"{self.name}: the version after a set")
            self.version, self.last = stat.version, number
            self.acknowledged.append(number)
        except UNKNOWN:
            self.unknown.append(number)
            self.find_out(number)
        except BadVersionError:
            check(self.unknown and self.unknown[-1] == number - 1, f"{self.name}: nobody else writes {self.path}")
            self.find_out(self.unknown[-1])

    def find_out(self, number):
        """Whether the unknown write of `number` happened: the node says it, or still says what was before."""
        self.zk.retry(self.zk.sync, self.path)
        data, stat = self.zk.retry(self.zk.get, self.path)
        found = (int(data), stat.version)
        check(found in [(self.last, self.version), (number, self.version + 1)],
              f"{self.name}: value and version are {found}; {self.last} was acknowledged as version {self.version}, "
              f"and only {number} was written since")
        self.last, self.version = found

    def check(self, readers):
        check(not self.zk.lost.is_set(), f"{self.name}: the session was lost: {self.zk.states}")
        check_equal(self.zk.client_id, self.session, f"{self.name}: the session")
        for reader in readers:
            data, stat = reader.get(self.path)
            check_equal((int(data), stat.version), (self.last, self.version), f"{self.name}: value and version")


class CClientWriter(Writer):
    """Sets one node through ZooKeeper's C client, driven through the standard input of cli_mt."""

    def __init__(self, hosts, index):
        super().__init__(f"c{index}")
        self.path = f"/{self.name}"
        self.process = subprocess.Popen([CLI_MT, "-h", hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", bufsize=1)
        self.lines = queue.Queue()
        self.sessions = []
        self.last_lines = []
        threading.Thread(target=self.read_lines, daemon=True).start()

    def read_lines(self):
        for line in self.process.stdout:
            found = re.search(r"Got a new session id: (0x[0-9a-f]+)", line)
            if found:
                self.sessions.append(found[1])
            if ":ZOO_" in line:  # the client library's log
                continue
            self.lines.put(line)
            self.last_lines = (self.last_lines + [line])[-30:]
        self.lines.put(None)

    def send(self, command):
        self.process.stdin.write(command + "\n")

    def wait_for(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.name}: no {pattern} in the output of cli_mt, which ends with:\n"
                                     + "".join(self.last_lines)) from None
            check(line is not None, f"{self.name}: cli_mt ended with status {self.process.poll()}")
            found = re.search(pattern, line)
            if found:
                return found

    def ask(self, command, pattern):
        """Repeats a command until its result code is 0; returns what the pattern finds after it."""
        while True:
            self.send(command)
            if self.wait_for(rf"{re.escape(self.path)}\]?: rc = (-?\d+)")[1] == "0":
                return self.wait_for(pattern)
            time.sleep(0.1)

    def prepare(self):
        self.wait_for(r"Got a new session id")
        self.send(f"create {self.path}")
        check_equal(self.wait_for(rf"\[{self.path}\]: rc = (-?\d+)")[1], "0", f"{self.name}: create")
        self.version = 0
        self.last = None

    def write(self, number):
        self.send(f"set {self.path} {number}")
        if self.wait_for(rf"{self.path}: rc = (-?\d+)")[1] == "0":
            version = int(self.wait_for(r"\bversion=([0-9a-f]+)")[1], 16)
            check_equal(version, self.version + 1, f"{self.name}: the version after a set")
            self.version, self.last = version, number
            self.acknowledged.append(number)
            return
        self.unknown.append(number)
        self.ask(f"sync {self.path}", r"name = ")
        version = int(self.ask(f"get {self.path}", r"\bversion=([0-9a-f]+)")[1], 16)
        check(version in (self.version, self.version + 1),
              f"{self.name}: version {version}, after {self.version} was acknowledged and one write is unknown")
        if version == self.version + 1:
            self.version, self.last = version, number

    def check(self, readers):
        check_equal(len(self.sessions), 1, f"{self.name}: sessions of the C client")
        for reader in readers:
            data, stat = reader.get(self.path)
            check_equal((int(data), stat.version), (self.last, self.version), f"{self.name}: value and version")

    def end(self):
        self.process.kill()
        self.process.wait()


EPHEMERAL_OWNER = """
import sys, time
from kazoo.client import KazooClient
zk = KazooClient(hosts=sys.argv[1], timeout=4.0)
zk.start(30)
zk.create(sys.argv[2], ephemeral=True)
print("created", flush=True)
time.sleep(600)
"""


class DyingClients:
    """Client processes that own an ephemeral node and are killed: nobody closes their sessions."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.count = 0
        self.process = None

    def next(self):
        """Kills the last one, starts another. (Its start may meet an election: then it is just not counted.)"""
        self.kill()
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", EPHEMERAL_OWNER, self.hosts, f"/dying-{self.count}"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.count += 1

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def check(self, zk):
        def left():
            zk.sync("/")
            return [name for name in zk.get_children("/") if name.startswith("dying-")]

        wait_until(lambda: not left(), 15, "the ephemeral nodes of dead clients vanish")


def kill_leader(ensemble, since):
    """One round. Returns how long there was no other leader."""
    leader = ensemble.wait_for_leader()
    leader.kill()
    killed = time.monotonic()
    wait_until(lambda: any(s.mode() == "leader" for s in ensemble.servers if s is not leader), 30, "another leader")
    outage = time.monotonic() - killed
    time.sleep(since)
    leader.start()
    wait_until(lambda: leader.mode() == "follower", 30, f"server {leader.id}, killed, follows")
    return outage


@case
def no_write_is_lost_when_leaders_die(context):
    ensemble = context.ensemble(3)
    hosts = ensemble.hosts
    writers = [LogWriter(context, hosts, 0, window=1), LogWriter(context, hosts, 1, window=20),
               VersionWriter(context, hosts, 0), VersionWriter(context, hosts, 1), CClientWriter(hosts, 0)]
    dying = DyingClients(hosts)
    outages = []
    try:
        for writer in writers:
            writer.prepare()
            writer.start()
        for round_number in range(context.arguments.kills):
            if round_number % 5 == 0:
                dying.next()
            acknowledged = [len(writer.acknowledged) for writer in writers]
            outages.append(kill_leader(ensemble, since=0.1 * (round_number % 5)))
            for writer, before in zip(writers, acknowledged):
                wait_until(lambda: len(writer.acknowledged) > before or writer.error, 30,
                           f"{writer.name} writes again after kill {round_number + 1}")
                if writer.error:
                    raise writer.error
        dying.kill()
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join(90)
            check(not writer.is_alive(), f"{writer.name} ends")
            if writer.error:
                raise writer.error

        readers = [context.client(server.address) for server in ensemble.servers]
        for reader in readers:
            reader.sync("/")
        for writer in writers:
            writer.check(readers)
        dying.check(readers[0])
    finally:
        dying.kill()
        writers[-1].end()
    print(f"  {len(outages)} leaders killed; {sum(len(w.acknowledged) for w in writers)} writes acknowledged, "
          f"{sum(len(w.unknown) for w in writers)} unknown to their client; no leader for "
          f"{sum(outages) / len(outages):.2f} s on average, {max(outages):.2f} s at most", flush=True)


if __name__ == "__main__":
    main(lambda parser: parser.add_argument("--kills", type=int, default=30, help="how many times"))
