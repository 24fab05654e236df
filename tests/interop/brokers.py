"""Servers that are brokers: three lockstepd with both roles or with the broker role alone, and Apache Kafka beside them.

The same interface as in ensemble.py. Apache Kafka is what the tests themselves are tested against, and what the benchmark
compares with; its jars lie in $KAFKA_LIB, where `./dev bench kafka` puts them. Python's standard library only.
"""

import os
import socket
import struct
import subprocess
from pathlib import Path

from ensemble import ROOT, Ensemble, Server, wait_until

KAFKA_LIB = Path(os.environ.get("KAFKA_LIB", ROOT / "build" / "kafka" / "lib"))
# For tests: faults are noticed within a second or two, and no group waits for members that do not come.
BROKER_SETTINGS = {
    "default.replication.factor": 3, "min.insync.replicas": 2, "num.partitions": 4,
    "offsets.topic.replication.factor": 3, "offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0,
    "replica.lag.time.max.ms": 3000,
}


def known_brokers(port, timeout=3):
    """The ids of the brokers that the one at `port` tells of, or None while it does not serve: an ordinary request for
    metadata (version 1, of no topic)."""
    body = struct.pack(">hhih", 3, 1, 1, 4) + b"test" + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            length, _, count = struct.unpack(">iii", stream.read(12))
            found = set()
            for _ in range(count):
                number, size = struct.unpack(">ih", stream.read(6))
                stream.read(size + 4)  # host, port
                rack, = struct.unpack(">h", stream.read(2))
                stream.read(max(rack, 0))
                found.add(number)
            return found
    except (OSError, struct.error):
        return None


def client_of(brokers):
    """The settings that every client of librdkafka gets. It need not say that a server is gone: servers are killed here."""
    return {"bootstrap.servers": brokers.bootstrap, "log_level": 2}


class BrokerEnsemble(Ensemble):
    """Servers 1 to `size`, each a coordinator and a broker; with `coordination`, the `host:port,...` of another ensemble,
    brokers only."""

    PORTS = 4

    def __init__(self, program, directory, size, settings=None, coordination=None):
        self.coordination = coordination
        roles = {"zookeeper.connect": coordination} if coordination else {"zookeeper.session.timeout.ms": 2000}
        super().__init__(program, directory, size, {**BROKER_SETTINGS, **self.bounds(size), **roles, **(settings or {})})

    def new_server(self, program, number, directory, ports):
        if self.coordination:
            ports = [None, None, None, ports[3]]
        return super().new_server(program, number, directory, ports)

    @staticmethod
    def bounds(size):
        """Of settings that name a number of brokers: no more than there are."""
        names = ("default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor")
        return {name: min(BROKER_SETTINGS[name], size) for name in names}

    @property
    def bootstrap(self):
        return ",".join(server.broker_address for server in self.servers)

    def wait_for_all(self, seconds=120):
        """Every server that runs serves, in its roles, and knows all brokers that run."""
        if not self.coordination:
            super().wait_for_all(seconds)
        self.wait_for_brokers(seconds)

    def wait_for_brokers(self, seconds=120):
        running = {server.id for server in self.servers if server.process is not None}
        for server in self.servers:
            if server.id in running:
                wait_until(lambda: running <= (known_brokers(server.broker_port) or set()) or self._died(server), seconds,
                           f"server {server.id} knows brokers {running}")

    def server_of(self, broker):
        return next(server for server in self.servers if server.id == broker)


# ---- Apache Kafka ---------------------------------------------------------------------------------

class KafkaServer(Server):
    """A broker and controller of Apache Kafka 4 (KRaft), of KAFKA_LIB."""

    CLUSTER = "bG9ja3N0ZXAtdGVzdHMtMQ"  # a uuid, in Kafka's base 64
    OURS = ("tickTime", "initLimit", "syncLimit", "4lw.commands.whitelist", "zookeeper.", "log.durability")

    def configure(self, members, settings):
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {key: value for key, value in settings.items() if not key.startswith(self.OURS)}
        voters = ",".join(f"{m.id}@127.0.0.1:{m.peer_port}" for m in members)
        lines = {"process.roles": "broker,controller", "node.id": self.id, "controller.quorum.voters": voters,
                 "listeners": f"PLAINTEXT://127.0.0.1:{self.broker_port},CONTROLLER://127.0.0.1:{self.peer_port}",
                 "controller.listener.names": "CONTROLLER", "log.dirs": self.data,
                 "broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500, **settings}
        self.config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    # Those of Kafka's own script.
    OPTIONS = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
               "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true")

    def java(self, heap, main, *arguments):
        return ["java", f"-Xmx{heap}", f"-Xms{heap}", *self.OPTIONS, "-cp", f"{KAFKA_LIB}/*", main, *map(str, arguments)]

    def command(self):
        return self.java(os.environ.get("KAFKA_HEAP", "512m"), "kafka.Kafka", self.config)

    def start(self, stderr=None):
        if not self.data.exists():
            subprocess.run(self.java("64m", "kafka.tools.StorageTool", "format", "-t", self.CLUSTER, "-c", self.config),
                           check=True, stdout=subprocess.DEVNULL, cwd=self.directory)
        super().start(stderr)

    def mode(self):
        return "broker" if self.running() and known_brokers(self.broker_port) else None


class KafkaEnsemble(BrokerEnsemble):
    """As many servers of Apache Kafka. Takes the keys that Kafka knows, which are those of brokers."""

    def __init__(self, program, directory, size, settings=None, coordination=None):
        if not any(KAFKA_LIB.glob("kafka_*.jar")):
            raise AssertionError(f"no Apache Kafka in {KAFKA_LIB}: ./dev bench kafka --fetch brings it there")
        super().__init__(program, directory, size, settings)

    def new_server(self, program, number, directory, ports):
        return KafkaServer(program, number, directory, [None, *ports[1:]])

    def wait_for_all(self, seconds=180):
        self.wait_for_brokers(seconds)

    def leader(self):
        """Any: which of them is the controller, clients are not told."""
        return next((server for server in self.servers if server.mode()), None)
