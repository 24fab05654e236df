"""The frame of the interop tests: a case is a function, a result is a line.

A script imports `case`, decorates functions that take a Context, and ends with main(). Run it with /usr/bin/python3, to
which Debian's python3-kazoo belongs. It prints `ok SCRIPT.CASE` or `FAILED SCRIPT.CASE: why` for each; ./dev test counts
those lines. After a failure the servers' directories are kept and named.
"""

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from brokers import BrokerEnsemble, KafkaEnsemble
from ensemble import Ensemble, default_program

CASES = []
PEERS = ("zookeeper", "kafka")  # what the tests themselves are tested against
CASE_SECONDS_MAX = 600


def case(function):
    CASES.append(function)
    return function


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def check_equal(found, expected, what):
    check(found == expected, f"{what}: {found!r}, expected {expected!r}")


def raises(error, action, *arguments, **options):
    """Fails unless the action raises this error."""
    try:
        result = action(*arguments, **options)
    except error:
        return
    raise AssertionError(f"no {error.__name__}, but {result!r}")


class Client(KazooClient):
    """A kazoo client that remembers the states it went through."""

    def __init__(self, hosts, timeout=10.0):
        super().__init__(hosts=hosts, timeout=timeout, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.5})
        self.states = []
        self.lost = threading.Event()
        self.add_listener(self._remember)

    def _remember(self, state):
        self.states.append(state)
        if state == KazooState.LOST:
            self.lost.set()

    def end(self):
        self.remove_listener(self._remember)
        self.stop()
        self.close()


class Context:
    """What a case gets: a directory, servers and clients that are gone afterwards."""

    def __init__(self, program, directory, arguments):
        self.program = program
        self.directory = directory
        self.arguments = arguments
        self.ensembles = []
        self.clients = []

    @property
    def is_lockstep(self):
        return self.program not in PEERS

    def ensemble(self, size=1, settings=None, start=True):
        ensemble = Ensemble(self.program, self.directory / f"ensemble{len(self.ensembles) + 1}", size, settings)
        self.ensembles.append(ensemble)
        return ensemble.__enter__() if start else ensemble

    def brokers(self, size=3, settings=None, start=True, **options):
        """Servers of both roles, or brokers alone; with `--server kafka` those of Apache Kafka."""
        kind = KafkaEnsemble if self.program == "kafka" else BrokerEnsemble
        ensemble = kind(self.program, self.directory / f"ensemble{len(self.ensembles) + 1}", size, settings, **options)
        self.ensembles.append(ensemble)
        return ensemble.__enter__() if start else ensemble

    def client(self, hosts, timeout=10.0):
        client = Client(hosts, timeout)
        self.clients.append(client)
        client.start(timeout=30)
        return client

    def close(self):
        for client in self.clients:
            try:
                client.end()
            except Exception:  # its server is gone, or it was ended before
                pass
        for ensemble in self.ensembles:
            ensemble.__exit__()


def run_case(function, name, program, arguments):
    directory = Path(tempfile.mkdtemp(prefix=f"lockstep-{name}-"))
    context = Context(program, directory, arguments)
    started = time.monotonic()

    def too_long(*_):
        raise AssertionError(f"not done within {CASE_SECONDS_MAX} s")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(CASE_SECONDS_MAX)
    try:
        function(context)
        print(f"ok {name} {time.monotonic() - started:.1f} s", flush=True)
        failed = False
    except Exception as error:  # a failed check, or an error of the client library: either way the case
        failed = True
        print(f"FAILED {name}: {str(error) or type(error).__name__}", flush=True)
        traceback.print_exc(file=sys.stdout)
        for ensemble in context.ensembles:
            for server in ensemble.servers:
                print(f"---- end of the log of server {server.id}, {server.directory}\n{server.log_tail()}")
    finally:
        signal.alarm(0)
        context.close()
    if not failed and not arguments.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return not failed


def main(extra=lambda parser: None):
    logging.basicConfig(level=logging.CRITICAL)
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only cases whose name contains this")
    parser.add_argument("--server", default=None, help="a lockstepd, or `zookeeper` for Debian's Apache ZooKeeper; in the tests named "
                        "kafka_* `kafka` for Apache Kafka")
    parser.add_argument("--keep", action="store_true", help="keep the servers' directories")
    extra(parser)
    arguments = parser.parse_args()
    program = arguments.server or default_program()
    if program not in PEERS:
        program = Path(program).resolve()
    script = Path(sys.argv[0]).stem
    ok = True
    for function in CASES:
        name = f"{script}.{function.__name__}"
        if arguments.filter in name:
            ok = run_case(function, name, program, arguments) and ok
    sys.exit(0 if ok else 1)
