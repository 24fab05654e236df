"""Servers are killed with SIGKILL and stopped with SIGSTOP in turn, while idempotent producers write with acks=all.

Each server is a coordinator and a broker, so that both roles lose their leaders. Every record that was acknowledged must be
read back exactly once and in order, from each partition; so must a consumer that read along have seen it. Then all servers
are restarted, and it must still be there.

The default is a short run for ./dev test. The full one: --kills 30 --records 200000.
"""

import random
import threading
import time
from collections import defaultdict

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokers import client_of
from cases import case, check, check_equal, main
from ensemble import wait_until

TOPIC = "log"
PARTITIONS = 6
PRODUCERS = 2
SECONDS = 120  # until something must have gone on after a fault
PAUSES = (0.7, 5.0)  # SIGSTOP, in turn: within the session timeout of 2 s, and so long that another leader takes over


class Writer(threading.Thread):
    """An idempotent producer. Writes numbers in their order, each to the partition that the number names, as far as it is
    allowed to; remembers which were acknowledged at which offset."""

    def __init__(self, brokers, name):
        super().__init__(name=name, daemon=True)
        self.producer = Producer({
            **client_of(brokers), "enable.idempotence": True, "acks": "all", "linger.ms": 2,
            "batch.num.messages": 50, "message.timeout.ms": 600_000, "request.timeout.ms": 5000, "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 1000, "retry.backoff.ms": 50, "error_cb": self.on_error})
        self.allowed = 0
        self.sent = 0
        self.acknowledged = {}  # number -> (partition, offset)
        self.failed = []
        self.fatal = None
        self.stopping = threading.Event()

    def on_error(self, error):
        if error.fatal():
            self.fatal = error

    def run(self):
        while not self.stopping.is_set():
            while self.sent < self.allowed and len(self.producer) < 5000:
                number = self.sent
                self.producer.produce(TOPIC, b"%s:%d" % (self.name.encode(), number), partition=number % PARTITIONS,
                                      on_delivery=lambda error, message, number=number: self.on_delivery(error, message, number))
                self.sent += 1
            self.producer.poll(0.02)

    def on_delivery(self, error, message, number):
        if error is not None:
            self.failed.append((number, str(error)))
        else:
            self.acknowledged[number] = (message.partition(), message.offset())

    def waiting(self):
        """What is not acknowledged: partition -> its first and last number, and how many."""
        missing = defaultdict(list)
        for number in range(self.sent):
            if number not in self.acknowledged:
                missing[number % PARTITIONS].append(number)
        return {partition: (numbers[0], numbers[-1], len(numbers)) for partition, numbers in missing.items()}

    def done(self):
        check(self.fatal is None, f"{self.name}: a fatal error: {self.fatal}")
        check(not self.failed, f"{self.name}: not delivered within ten minutes, or refused: {self.failed[:5]}")
        return len(self.acknowledged) == self.allowed


def read_messages(consumer, into):
    """Adds what there is to `into`: partition -> [(offset, value)]."""
    for message in consumer.consume(1000, 0.2):
        if message.error() is None:
            into[message.partition()].append((message.offset(), message.value().decode()))


def consumer_from_beginning(brokers):
    consumer = Consumer({**client_of(brokers), "group.id": "none", "enable.auto.commit": False,
                         "auto.offset.reset": "error", "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1000})
    consumer.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    return consumer


class Follower(threading.Thread):
    """A consumer that reads along, through all the faults."""

    def __init__(self, brokers):
        super().__init__(daemon=True)
        self.consumer = consumer_from_beginning(brokers)
        self.found = defaultdict(list)
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            read_messages(self.consumer, self.found)
        self.consumer.close()

    def count(self):
        return sum(len(messages) for messages in list(self.found.values()))


def read_all(brokers):
    """All partitions, from their beginning to where they end now."""
    consumer, found = consumer_from_beginning(brokers), defaultdict(list)
    end = time.monotonic() + SECONDS
    for partition in range(PARTITIONS):
        last = wait_until(lambda: watermark(consumer, partition), SECONDS, f"watermarks of partition {partition}")[1]
        while not found[partition] or found[partition][-1][0] + 1 < last:
            read_messages(consumer, found)
            check(time.monotonic() < end, f"partition {partition} ends at {last}; read: {found[partition][-1:]}")
    consumer.close()
    return found


def watermark(consumer, partition):
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 10)
    except Exception:  # no leader at the moment
        return None


def check_log(found, writers, what):
    """What was read: every acknowledged record at its offset, once, in order; and no record that nobody wrote."""
    for partition in range(PARTITIONS):
        messages = found[partition]
        offsets = [offset for offset, _ in messages]
        check_equal(offsets, list(range(len(offsets))), f"{what}: offsets of partition {partition}")
        numbers = defaultdict(list)
        for _, value in messages:
            name, number = value.split(":")
            numbers[name].append(int(number))
        for writer in writers:
            mine = numbers.pop(writer.name, [])
            expected = list(range(partition, writer.sent, PARTITIONS))
            if mine != expected:
                lost, extra = sorted(set(expected) - set(mine)), sorted(n for n in set(mine) if mine.count(n) > 1)
                raise AssertionError(f"{what}: {writer.name} in partition {partition}: lost {lost[:10]} ({len(lost)}), "
                                     f"twice {extra[:10]}, or not in order")
        check(not numbers, f"{what}: records of nobody: {list(numbers)[:5]}")
    for writer in writers:
        for number, (partition, offset) in writer.acknowledged.items():
            if offset is None:  # librdkafka found out that it is there, and not where
                continue
            value = found[partition][offset][1]
            check(value == f"{writer.name}:{number}",
                  f"{what}: {writer.name}:{number} was acknowledged at {partition}/{offset}, where {value} is")


class Faults:
    """One fault after another, each on a server that matters: who leads the ensemble, who leads partitions, anyone."""

    def __init__(self, brokers, seed):
        self.brokers = brokers
        self.admin = AdminClient(client_of(brokers))
        self.random = random.Random(seed)
        self.count = 0

    def victim(self):
        kind = self.count // 2 % 3
        if kind == 0:
            return self.brokers.wait_for_leader(SECONDS)
        if kind == 1:
            topic = self.admin.list_topics(TOPIC, timeout=20).topics[TOPIC]
            leader = topic.partitions[self.random.randrange(PARTITIONS)].leader
            if leader > 0:
                return self.brokers.server_of(leader)
        return self.random.choice(self.brokers.servers)

    def strike(self, during):
        """Kills or stops one, calls `during()`, and brings it back. Returns what was done."""
        server = self.victim()
        pause = self.count % 2
        seconds = PAUSES[self.count // 2 % 2] if pause else 0.3 * (self.count % 5)
        self.count += 1
        if pause:
            server.pause()
        else:
            server.kill()
        try:
            during()
            time.sleep(seconds)
        finally:
            if pause:
                server.resume()
            else:
                server.start()
        return f"server {server.id} {'stopped' if pause else 'killed'} for {seconds:.1f} s"

    def wait_until_healed(self):
        """All are in sync again: the next fault must find two others, or nothing could be written during it."""
        self.brokers.wait_for_all()

        def healed():
            try:
                topic = self.admin.list_topics(TOPIC, timeout=10).topics[TOPIC]
            except Exception:  # the broker that was asked is not back yet
                return False
            return len(topic.partitions) == PARTITIONS and all(len(p.isrs) == 3 for p in topic.partitions.values())

        wait_until(healed, SECONDS, "all replicas are in sync again")


@case
def acknowledged_records_survive_kills_and_stops(context):
    kills, records = context.arguments.kills, context.arguments.records
    brokers = context.brokers()
    faults = Faults(brokers, context.arguments.seed)
    faults.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)], operation_timeout=30)[TOPIC].result(SECONDS)
    faults.wait_until_healed()
    writers = [Writer(brokers, f"writer{n}") for n in range(PRODUCERS)]
    follower = Follower(brokers)
    for thread in (*writers, follower):
        thread.start()
    each, longest = records // PRODUCERS // kills, 0.0

    def allow(count):
        for writer in writers:
            writer.allowed += count

    def written():
        return all([writer.done() for writer in writers])

    def meanwhile():
        allow(each - each // 2)

    for number in range(kills):
        allow(each // 2)  # under way when the fault comes
        before = time.monotonic()
        what = faults.strike(meanwhile)
        try:
            wait_until(written, SECONDS, f"all is acknowledged after fault {number + 1} ({what})")
        except AssertionError as error:
            topic = faults.admin.list_topics(TOPIC, timeout=20).topics[TOPIC]
            raise AssertionError(f"{error}; not acknowledged: {[writer.waiting() for writer in writers]}; leaders: "
                                 f"{({p.id: (p.leader, p.isrs) for p in topic.partitions.values()})}") from None
        longest = max(longest, time.monotonic() - before)
        faults.wait_until_healed()
        if context.arguments.verbose:
            print(f"  fault {number + 1}: {what}; acknowledged after {time.monotonic() - before:.1f} s", flush=True)

    total = sum(writer.sent for writer in writers)
    wait_until(lambda: follower.count() >= total, SECONDS, "the consumer that read along has all")
    for thread in (*writers, follower):
        thread.stopping.set()
        thread.join(30)
    check_log(follower.found, writers, "the consumer that read along")
    check_log(read_all(brokers), writers, "read afterwards")

    for server in brokers.servers:
        server.kill()
    for server in brokers.servers:
        server.start()
    brokers.wait_for_all()
    check_log(read_all(brokers), writers, "after a restart of all")
    print(f"  {kills} faults, {total} records; the slowest round took {longest:.1f} s", flush=True)


def options(parser):
    parser.add_argument("--kills", type=int, default=4, help="faults, SIGKILL and SIGSTOP in turn")
    parser.add_argument("--records", type=int, default=20_000, help="in all")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of victims")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")


if __name__ == "__main__":
    main(options)
