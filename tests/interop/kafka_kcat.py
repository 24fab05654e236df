"""kcat against three brokers: metadata, produce, consume, offsets and times, groups, and a broker that dies.

kcat is a thin layer over librdkafka, and so speaks what most clients outside Java speak.
"""

import json
import subprocess
import threading
import time

from cases import case, check, check_equal, main
from ensemble import wait_until

SECONDS = 90  # of one kcat


def kcat(brokers, *arguments, data=None):
    """Runs kcat; returns what it printed, without the last line feed."""
    line = ["kcat", "-b", brokers.bootstrap, "-X", "socket.timeout.ms=20000", *map(str, arguments)]
    try:
        result = subprocess.run(line, input=data, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{' '.join(line)}: not done within {SECONDS} s; it said:\n{error.stderr}") from None
    check(result.returncode == 0, f"{' '.join(line)} ended with {result.returncode}: {result.stderr}")
    return result.stdout.removesuffix("\n")


def metadata(brokers, *arguments):
    return json.loads(kcat(brokers, "-L", "-J", *arguments))


def produce(brokers, topic, lines, *arguments):
    """Writes lines, each a record; acks=all, which is librdkafka's default."""
    kcat(brokers, "-P", "-t", topic, *arguments, data="".join(line + "\n" for line in lines))


def consume(brokers, topic, *arguments):
    """What is there from an offset on (-o; the beginning), to the end."""
    offset = [] if "-o" in arguments else ["-o", "beginning"]
    text = kcat(brokers, "-C", "-q", "-e", "-t", topic, *offset, *arguments)
    return text.split("\n") if text else []


def partition_of(brokers, topic, partition=0):
    found = metadata(brokers, "-t", topic)["topics"][0]
    check("error" not in found, f"metadata of {topic}: {found}")
    return next(p for p in found["partitions"] if p["partition"] == partition)


class GroupMember:
    """A kcat -G that runs on; the lines that it printed so far."""

    def __init__(self, brokers, group, topic):
        self.lines = []
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", "kcat", "-b", brokers.bootstrap, "-u", "-X", "session.timeout.ms=6000",
             "-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=200", "-G", group, topic],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.errors = []
        self.threads = [threading.Thread(target=self.read, args=of, daemon=True)
                        for of in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.removesuffix("\n"))

    def assigned(self):
        """How many partitions it has, by what it last said about that."""
        said = [line for line in self.errors if "rebalanced" in line]
        return said[-1].count("[") if said and "assigned" in said[-1] else 0

    def end(self):
        """SIGTERM: it commits and leaves the group."""
        self.process.terminate()
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait()


@case
def metadata_lists_brokers_topics_and_replicas(context):
    brokers = context.brokers()

    produce(brokers, "made-by-use", ["one"])

    found = metadata(brokers)
    check_equal(sorted(b["id"] for b in found["brokers"]), [1, 2, 3], "brokers")
    check_equal(sorted(b["name"] for b in found["brokers"]), sorted(s.broker_address for s in brokers.servers), "addresses")
    topic = next(t for t in found["topics"] if t["topic"] == "made-by-use")
    check_equal(len(topic["partitions"]), 4, "partitions of a topic made by its first use")
    for partition in topic["partitions"]:
        check_equal(sorted(r["id"] for r in partition["replicas"]), [1, 2, 3], "replicas")
        check_equal(sorted(r["id"] for r in partition["isrs"]), [1, 2, 3], "replicas in sync")
        check(partition["leader"] in (1, 2, 3), f"a leader: {partition}")
    leaders = {partition["leader"] for partition in topic["partitions"]}
    check(len(leaders) > 1, f"leaders are spread: {leaders}")


@case
def what_is_produced_is_consumed(context):
    brokers = context.brokers()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = [f"{codec} {number} " + "x" * (number % 100) for number in range(1000)]
        produce(brokers, f"codec-{codec}", lines, "-z", codec, "-p", "1", "-X", "acks=all")
        check_equal(consume(brokers, f"codec-{codec}", "-p", "1"), lines, f"records sent with {codec}")

    for acks in ("0", "1", "all"):
        produce(brokers, f"acks-{acks}", ["a", "b"], "-p", "0", "-X", f"acks={acks}")
        wait_until(lambda: consume(brokers, f"acks-{acks}", "-p", "0") == ["a", "b"], 20, f"records sent with acks={acks}")

    lines = [str(number) for number in range(5000)]
    produce(brokers, "idempotent", lines, "-p", "2", "-X", "enable.idempotence=true", "-X", "batch.num.messages=100")
    check_equal(consume(brokers, "idempotent", "-p", "2"), lines, "records of an idempotent producer")


@case
def keys_headers_nulls_and_large_records(context):
    brokers = context.brokers()

    produce(brokers, "keys", ["k1:v1", "k2:", ":v3", "k4:v4"], "-K:", "-Z", "-p", "0", "-H", "a=1", "-H", "b=two")
    found = consume(brokers, "keys", "-p", "0", "-f", "%o %K %k %S %s %h\n")
    check_equal(found, ["0 2 k1 2 v1 a=1,b=two", "1 2 k2 -1  a=1,b=two", "2 -1  2 v3 a=1,b=two", "3 2 k4 2 v4 a=1,b=two"],
                "offset, key, value and headers")

    large = "y" * 900_000
    produce(brokers, "large", [large], "-p", "0")
    check_equal(consume(brokers, "large", "-p", "0", "-f", "%S %s\n"), [f"900000 {large}"], "a large record")
    # With librdkafka's own bound lifted, the broker says what is too large.
    result = subprocess.run(["kcat", "-b", brokers.bootstrap, "-P", "-t", "large", "-p", "0", "-X",
                             "message.max.bytes=3000000"], input="z" * 2_000_000, capture_output=True, text=True, timeout=SECONDS)
    check("size too large" in result.stderr, f"a record above message.max.bytes: {result.stderr}")


@case
def offsets_and_times(context):
    brokers = context.brokers()
    produce(brokers, "times", [f"early {n}" for n in range(10)], "-p", "0")
    time.sleep(0.2)  # kcat gives records the present time: this is between them
    between = int(time.time() * 1000)
    time.sleep(0.2)
    produce(brokers, "times", [f"late {n}" for n in range(10)], "-p", "0")
    late = [f"late {n}" for n in range(10)]

    check_equal(consume(brokers, "times", "-p", "0", "-o", "15"), late[5:], "from an offset")
    check_equal(consume(brokers, "times", "-p", "0", "-o", "-3"), late[7:], "the last three")
    check_equal(consume(brokers, "times", "-p", "0", "-o", "beginning", "-c", "2"), ["early 0", "early 1"], "the first two")
    check_equal(consume(brokers, "times", "-p", "0", "-o", f"s@{between}"), late, "from a time on")
    check_equal(consume(brokers, "times", "-p", "0", "-o", "s@0", "-o", f"e@{between}"), [f"early {n}" for n in range(10)],
                "up to a time")
    check_equal(consume(brokers, "times", "-p", "0", "-o", "end"), [], "from the end on")
    answer = kcat(brokers, "-Q", "-t", f"times:0:{between}")
    check_equal(answer, "times [0] offset 10", "the first offset at or after a time")


@case
def a_group_shares_partitions_and_remembers(context):
    brokers = context.brokers()
    first = [f"first {n}" for n in range(200)]
    produce(brokers, "shared", first)
    members = [GroupMember(brokers, "g", "shared")]
    try:
        wait_until(lambda: sorted(members[0].lines) == sorted(first), 60, "one member reads all partitions")

        members.append(GroupMember(brokers, "g", "shared"))
        wait_until(lambda: [m.assigned() for m in members] == [2, 2], 60, "two members share four partitions")
        second = [f"second {n}" for n in range(200)]
        # Some for each partition: left alone, librdkafka puts what comes within ten milliseconds into one.
        for partition in range(4):
            produce(brokers, "shared", second[partition::4], "-p", str(partition))
        wait_until(lambda: len(members[0].lines) + len(members[1].lines) >= 400, 60, "both read on")
        check_equal(sorted(members[0].lines + members[1].lines), sorted(first + second), "each record once")
        check(all(any(line in second for line in member.lines) for member in members), "both get some of it")

        # The dead one's partitions, from what it had committed: at least that far, so nothing is missing.
        time.sleep(1)  # both commit
        members[0].kill()
        wait_until(lambda: members[1].assigned() == 4, 60, "the one that is left gets all partitions")
        third = [f"third {n}" for n in range(200)]
        produce(brokers, "shared", third)
        wait_until(lambda: set(third) <= set(members[1].lines), 60, "it reads them")

        members[1].end()
        members.append(GroupMember(brokers, "g", "shared"))
        produce(brokers, "shared", ["last"])
        wait_until(lambda: members[2].lines, 60, "the next one reads")
        check_equal(members[2].lines, ["last"], "after all left, the next one goes on where they were")
    finally:
        for member in members:
            member.kill()


@case
def a_broker_dies_and_work_goes_on(context):
    brokers = context.brokers()
    written = []

    def write(text, count=200):
        lines = [f"{text} {n}" for n in range(count)]
        # Idempotent, or what is sent again because its answer was lost would be there twice.
        produce(brokers, "survives", lines, "-X", "enable.idempotence=true", "-X", "message.timeout.ms=60000")
        written.extend(lines)

    write("before")
    for number in range(3):
        victim = brokers.server_of(partition_of(brokers, "survives", number)["leader"])
        victim.kill()
        write(f"while {victim.id} is dead")
        check_equal(sorted(consume(brokers, "survives")), sorted(written), f"what is there while {victim.id} is dead")
        victim.start()
        brokers.wait_for_brokers()
        wait_until(lambda: all(len(partition_of(brokers, "survives", p)["isrs"]) == 3 for p in range(4)), 60,
                   f"broker {victim.id} is in sync again")
    write("after")
    check_equal(sorted(consume(brokers, "survives")), sorted(written), "what is there")


@case
def a_restart_of_all_keeps_everything(context):
    brokers = context.brokers()
    lines = [str(number) for number in range(1000)]
    produce(brokers, "kept", lines, "-p", "3")
    for server in brokers.servers:
        server.process.terminate()
    for server in brokers.servers:
        status = server.process.wait(60)
        # A JVM tells that a signal ended it, and ends cleanly.
        check(status in ((0,) if context.is_lockstep else (0, 143)), f"server {server.id} stops cleanly: {status}")

    for server in brokers.servers:
        server.start()
    brokers.wait_for_all()

    check_equal(consume(brokers, "kept", "-p", "3"), lines, "records, after a restart of all")
    produce(brokers, "kept", ["more"], "-p", "3")
    check_equal(consume(brokers, "kept", "-p", "3", "-o", "1000"), ["more"], "a record, after a restart of all")


if __name__ == "__main__":
    main()
