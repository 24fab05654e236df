"""kafka-python 2.0.2 (Debian's python3-kafka) against three brokers.

It speaks old versions of the protocol: Metadata 0 and 1, Fetch 4, ListOffsets 1, JoinGroup 2; and it guesses from what a
broker offers how new that is, so that a gap in the list of APIs would make it write formats that nobody reads any more.
"""

import socket
import struct
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from cases import case, check, check_equal, main, raises
from ensemble import wait_until

SECONDS = 60


def servers(brokers):
    return {"bootstrap_servers": brokers.bootstrap.split(",")}


def admin_of(brokers):
    return KafkaAdminClient(**servers(brokers), request_timeout_ms=30000)


def create(brokers, name, partitions=1):
    admin = admin_of(brokers)
    admin.create_topics([NewTopic(name, partitions, 3)], timeout_ms=30000)
    wait_until(lambda: name in admin.list_topics() and len(admin.describe_topics([name])[0]["partitions"]) == partitions,
               SECONDS, f"topic {name} is there")
    return admin


def consumer_of(brokers, *topics, **options):
    return KafkaConsumer(*topics, **servers(brokers), consumer_timeout_ms=20000, auto_offset_reset="earliest", **options)


def take(consumer, count):
    """The next `count` records; fewer if nothing comes for long."""
    found = []
    for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


@case
def records_with_each_codec(context):
    brokers = context.brokers()
    create(brokers, "t", 2)
    sent = []
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        try:
            producer = KafkaProducer(**servers(brokers), compression_type=codec, acks="all", retries=10, linger_ms=10)
        except AssertionError:  # Debian has no Python library for this codec
            continue
        values = [f"{codec} {n}".encode() for n in range(300)]
        results = [producer.send("t", value, key=b"k", headers=[("h", b"1")], partition=0) for value in values]
        offsets = [result.get(SECONDS).offset for result in results]
        check_equal(offsets, list(range(len(sent), len(sent) + 300)), f"offsets of records sent with {codec}")
        sent += values
        producer.close()
    check(len(sent) >= 600, "at least one codec")

    consumer = consumer_of(brokers)
    partition = TopicPartition("t", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    found = take(consumer, len(sent))
    check_equal([record.value for record in found], sent, "records")
    check_equal({(record.key, tuple(record.headers)) for record in found}, {(b"k", (("h", b"1"),))}, "keys and headers")
    check_equal(consumer.end_offsets([partition]), {partition: len(sent)}, "end offset")
    check_equal(consumer.beginning_offsets([partition]), {partition: 0}, "first offset")
    middle = found[300].timestamp
    first = next(record.offset for record in found if record.timestamp >= middle)
    check_equal(consumer.offsets_for_times({partition: middle})[partition].offset, first, "the offset at a time")
    consumer.seek(partition, len(sent) - 1)
    check_equal([record.value for record in take(consumer, 1)], sent[-1:], "after a seek")
    consumer.close()


@case
def groups_share_commit_and_go_on(context):
    brokers = context.brokers()
    create(brokers, "t", 4)
    producer = KafkaProducer(**servers(brokers), acks="all")
    for n in range(400):
        producer.send("t", b"%d" % n, partition=n % 4)
    producer.flush(SECONDS)

    first = consumer_of(brokers, "t", group_id="g", enable_auto_commit=False, session_timeout_ms=6000,
                        heartbeat_interval_ms=500)
    found = [int(record.value) for record in take(first, 400)]
    check_equal(sorted(found), list(range(400)), "one member reads all")
    first.commit({TopicPartition("t", p): OffsetAndMetadata(90, "noted") for p in range(4)})
    check_equal(first.committed(TopicPartition("t", 1), metadata=True), OffsetAndMetadata(90, "noted"), "committed")
    first.close()

    # Two members in threads of their own, since joining waits for both.
    results = [[], []]

    def member(into):
        consumer = consumer_of(brokers, "t", group_id="g", enable_auto_commit=False, session_timeout_ms=6000,
                               heartbeat_interval_ms=500)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not done.is_set():
            for records in consumer.poll(200).values():
                into += [int(record.value) for record in records]
        consumer.close()

    done = threading.Event()
    threads = [threading.Thread(target=member, args=(result,)) for result in results]
    for thread in threads:
        thread.start()
    admin = admin_of(brokers)
    try:
        wait_until(lambda: set(results[0] + results[1]) == set(range(360, 400)), SECONDS, "the rest, after what was committed")
        wait_until(lambda: len(admin.describe_consumer_groups(["g"])[0].members) == 2, SECONDS, "two members")
        check_equal(admin.describe_consumer_groups(["g"])[0].state, "Stable", "the state of the group")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    check_equal([name for name, kind in admin.list_consumer_groups() if kind == "consumer" and name == "g"], ["g"], "groups")
    offsets = admin.list_consumer_group_offsets("g")
    check_equal({p.partition: o.offset for p, o in offsets.items()}, {p: 90 for p in range(4)}, "offsets of the group")
    wait_until(lambda: admin.delete_consumer_groups(["g"])[0][1].errno == 0, SECONDS, "the empty group is deleted")
    check("g" not in [name for name, _ in admin.list_consumer_groups()], "it is gone")


@case
def admin_calls(context):
    brokers = context.brokers()
    admin = create(brokers, "t", 2)
    raises(TopicAlreadyExistsError, admin.create_topics, [NewTopic("t", 2, 3)])
    admin.create_partitions({"t": NewPartitions(3)}, timeout_ms=30000)
    wait_until(lambda: len(admin.describe_topics(["t"])[0]["partitions"]) == 3, SECONDS, "three partitions")

    # Version 0 of Metadata, with which it asks who is there before all else, must be answered in that version.
    check_equal(len(admin.describe_cluster()["brokers"]), 3, "brokers")
    resource = ConfigResource(ConfigResourceType.TOPIC, "t", {"retention.ms": "60000"})
    admin.alter_configs([resource])

    def retention():
        answers = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "t")])
        return next(entry[1] for entry in answers[0].resources[0][4] if entry[0] == "retention.ms")

    wait_until(lambda: retention() == "60000", SECONDS, "retention.ms is changed")
    admin.delete_topics(["t"], timeout_ms=30000)
    wait_until(lambda: "t" not in admin.list_topics(), SECONDS, "topic t is gone")
    raises(UnknownTopicOrPartitionError, admin.delete_topics, ["t"])


@case
def garbage_closes_only_its_own_connection(context):
    brokers = context.brokers()
    create(brokers, "t")
    producer = KafkaProducer(**servers(brokers), acks="all")
    port = brokers.servers[0].broker_port
    for what in (struct.pack(">i", -1), struct.pack(">i", 0x7fffffff), b"GET / HTTP/1.1\r\n\r\n",
                 struct.pack(">ihhi", 8, 999, 0, 1), struct.pack(">ihhih", 10, 3, 99, 1, -1),
                 struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0x7fffffff)):
        check_equal(answer_to(port, what), b"", f"the answer to {what!r}")
        producer.send("t", b"x").get(SECONDS)
    # ApiVersions in a version that nobody knows: error 35 in version 0, and the connection lives on.
    answer = answer_to(port, struct.pack(">ihhih", 16, 18, 99, 7, -1) + b"\0\2a\2b\0", size=10)
    check_equal(struct.unpack(">ih", answer[4:10]), (7, 35), "correlation id and error")


def answer_to(port, data, size=None):
    """What a broker says before it closes the connection; or the first `size` bytes of it."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(data)
        connection.settimeout(20)
        answer = b""
        while size is None or len(answer) < size:
            try:
                part = connection.recv(4096)
            except ConnectionResetError:
                break
            if not part:
                break
            answer += part
        return answer


@case
def a_broker_dies_and_clients_go_on(context):
    brokers = context.brokers()
    create(brokers, "t", 3)
    producer = KafkaProducer(**servers(brokers), acks="all", retries=1000, request_timeout_ms=10000, retry_backoff_ms=100,
                             max_in_flight_requests_per_connection=1)
    sent = 0

    def send(count):
        nonlocal sent
        for result in [producer.send("t", b"%d" % n, partition=n % 3) for n in range(sent, sent + count)]:
            result.get(SECONDS)
        sent += count

    send(300)
    brokers.servers[1].kill()
    send(300)
    brokers.servers[1].start()
    brokers.wait_for_brokers()
    send(300)
    consumer = consumer_of(brokers)
    consumer.assign([TopicPartition("t", p) for p in range(3)])
    consumer.seek_to_beginning()
    # It is not idempotent: a record whose answer was lost may be there twice. None is missing.
    found, end = set(), time.monotonic() + SECONDS
    while len(found) < sent and time.monotonic() < end:
        for records in consumer.poll(500).values():
            found |= {int(record.value) for record in records}
    check_equal(found, set(range(sent)), "records")
    consumer.close()


if __name__ == "__main__":
    main()
