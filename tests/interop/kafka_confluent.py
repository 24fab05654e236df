"""confluent-kafka (Debian's python3-confluent-kafka, over librdkafka) against three brokers: producer, consumer, admin."""

import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from brokers import client_of
from cases import case, check, check_equal, main
from ensemble import wait_until

SECONDS = 60


def admin_of(brokers):
    return AdminClient(client_of(brokers))


def create(brokers, name, partitions=1, **options):
    """Makes a topic, and waits until a client can see it."""
    admin = admin_of(brokers)
    admin.create_topics([NewTopic(name, partitions, 3, **options)], operation_timeout=30)[name].result(SECONDS)
    wait_until(lambda: name in admin.list_topics(timeout=20).topics
               and len(admin.list_topics(name, timeout=20).topics[name].partitions) == partitions, SECONDS, f"topic {name} is there")
    return admin


def error_of(future):
    """The name of the error that a call of the admin client ended with."""
    try:
        future.result(SECONDS)
    except KafkaException as error:
        return error.args[0].name()
    raise AssertionError("no error")


def produce(brokers, topic, records, **options):
    """Writes (partition, key, value); returns what was acknowledged, as (partition, offset), in the order of the answers."""
    delivered = []

    def on_delivery(error, message):
        check(error is None, f"delivery of {message.key()}: {error}")
        delivered.append((message.partition(), message.offset()))

    producer = Producer({**client_of(brokers), "enable.idempotence": True, "linger.ms": 5, **options})
    for partition, key, value in records:
        producer.produce(topic, value, key, partition, on_delivery=on_delivery)
    check_equal(producer.flush(SECONDS), 0, "records not delivered")
    return delivered


def consumer_of(brokers, group="none", **options):
    return Consumer({**client_of(brokers), "group.id": group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 6000, **options})


def poll(consumer, count, seconds=SECONDS):
    """The next `count` messages."""
    found, end = [], time.monotonic() + seconds
    while len(found) < count:
        for message in consumer.consume(count - len(found), 0.5):
            check(message.error() is None, f"consume: {message.error()}")
            found.append(message)
        check(time.monotonic() < end, f"{len(found)} messages of {count} within {seconds} s")
    return found


@case
def acknowledged_records_are_read_back(context):
    brokers = context.brokers()
    create(brokers, "t", 3)
    sent = [(n % 3, b"k%d" % n, b"v%d" % n) for n in range(3000)]

    delivered = produce(brokers, "t", sent)
    check_equal(sorted(delivered), [(p, o) for p in range(3) for o in range(1000)], "partitions and offsets acknowledged")

    consumer = consumer_of(brokers)
    for partition in range(3):
        check_equal(consumer.get_watermark_offsets(TopicPartition("t", partition), SECONDS), (0, 1000), "watermarks")
    consumer.assign([TopicPartition("t", p, OFFSET_BEGINNING) for p in range(3)])
    found = poll(consumer, 3000)
    for partition in range(3):
        mine = [(m.partition(), m.key(), m.value()) for m in found if m.partition() == partition]
        check_equal(mine, [record for record in sent if record[0] == partition], f"records of partition {partition}")
    consumer.seek(TopicPartition("t", 1, 990))
    check_equal([m.offset() for m in poll(consumer, 10)], list(range(990, 1000)), "offsets after a seek")
    consumer.close()


@case
def timestamps_and_headers(context):
    brokers = context.brokers()
    create(brokers, "t")
    producer = Producer(client_of(brokers))
    day = 86_400_000
    now = int(time.time() * 1000)
    for n in range(10):
        producer.produce("t", b"%d" % n, timestamp=now - (10 - n) * day, headers=[("h", b"%d" % n), ("null", None)])
    check_equal(producer.flush(SECONDS), 0, "records not delivered")

    consumer = consumer_of(brokers)
    asked = [TopicPartition("t", 0, now - 5 * day - day // 2)]
    check_equal(consumer.offsets_for_times(asked, SECONDS)[0].offset, 5, "the offset at a time")
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    for n, message in enumerate(poll(consumer, 10)):
        check_equal(message.timestamp()[1], now - (10 - n) * day, "timestamp")
        check_equal(message.headers(), [("h", b"%d" % n), ("null", None)], "headers")
    consumer.close()


def offset_in_new_partition(brokers):
    """Writes there. Not every broker tells of a new partition at the same moment, and the client believes the first."""
    try:
        return produce(brokers, "a", [(4, b"k", b"v")])
    except AssertionError as error:
        check("UNKNOWN_PARTITION" in str(error), str(error))
        return None


@case
def topics_are_made_grown_and_deleted(context):
    # A producer that still lives asks for metadata of what is deleted, and would make it again.
    brokers = context.brokers(settings={"auto.create.topics.enable": "false"})
    admin = create(brokers, "a", 2)
    topic = admin.list_topics("a", timeout=20).topics["a"]
    check_equal({len(p.replicas) for p in topic.partitions.values()}, {3}, "replicas")

    check_equal(error_of(admin.create_topics([NewTopic("a", 1, 3)])["a"]), "TOPIC_ALREADY_EXISTS", "make it again")
    check_equal(error_of(admin.create_topics([NewTopic("b", 1, 9)])["b"]), "INVALID_REPLICATION_FACTOR", "nine replicas")
    check_equal(error_of(admin.create_topics([NewTopic("no/name", 1, 3)])["no/name"]), "TOPIC_EXCEPTION", "a bad name")
    check_equal(error_of(admin.create_topics([NewTopic("c", 1, 3, config={"no.such.key": "1"})])["c"]), "INVALID_CONFIG",
                "an unknown setting")
    admin.create_topics([NewTopic("dry", 1, 3)], validate_only=True)["dry"].result(SECONDS)
    check("dry" not in admin.list_topics(timeout=20).topics, "validate_only makes nothing")

    admin.create_partitions([NewPartitions("a", 5)])["a"].result(SECONDS)
    wait_until(lambda: len(admin.list_topics("a", timeout=20).topics["a"].partitions) == 5, SECONDS, "five partitions")
    wait_until(lambda: offset_in_new_partition(brokers), SECONDS, "a record in the new partition")
    check_equal(error_of(admin.create_partitions([NewPartitions("a", 3)])["a"]), "INVALID_PARTITIONS", "fewer partitions")

    # Under the same name comes another topic, and it is empty.
    for _ in range(2):
        admin.delete_topics(["a"], operation_timeout=30)["a"].result(SECONDS)
        wait_until(lambda: "a" not in admin.list_topics(timeout=20).topics, SECONDS, "topic a is gone")
        create(brokers, "a", 1)
        check_equal(produce(brokers, "a", [(0, b"k", b"new")]), [(0, 0)], "the first offset of the new topic")
    check_equal(error_of(admin.delete_topics(["never"])["never"]), "UNKNOWN_TOPIC_OR_PART", "delete what is not there")


@case
def settings_of_topics_are_described_and_changed(context):
    brokers = context.brokers()
    admin = create(brokers, "t", 1, config={"retention.ms": "3600000"})

    def settings(kind, name):
        resource = ConfigResource(kind, name)
        return admin.describe_configs([resource])[resource].result(SECONDS)

    check_equal(settings(ConfigResource.Type.TOPIC, "t")["retention.ms"].value, "3600000", "retention.ms")
    check("min.insync.replicas" in settings(ConfigResource.Type.TOPIC, "t"), "settings with defaults are listed too")
    check_equal(settings(ConfigResource.Type.BROKER, "1")["min.insync.replicas"].value, "2", "a broker's setting")

    resource = ConfigResource(ConfigResource.Type.TOPIC, "t", set_config={"retention.ms": "7200000"})
    admin.alter_configs([resource])[resource].result(SECONDS)
    wait_until(lambda: settings(ConfigResource.Type.TOPIC, "t")["retention.ms"].value == "7200000", SECONDS,
               "retention.ms is changed")
    check_equal(error_of(next(iter(admin.alter_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, "t", set_config={"retention.ms": "soon"})]).values()))),
        "INVALID_CONFIG", "a setting that is no number")


@case
def groups_rebalance_and_commit(context):
    brokers = context.brokers()
    create(brokers, "t", 4)
    produce(brokers, "t", [(n % 4, None, b"%d" % n) for n in range(400)])
    first = consumer_of(brokers, "g")
    first.subscribe(["t"])
    messages = poll(first, 200)
    first.commit(offsets=[TopicPartition("t", p, 1 + max((m.offset() for m in messages if m.partition() == p), default=-1))
                          for p in range(4)], asynchronous=False)
    first.close()

    second, third = consumer_of(brokers, "g"), consumer_of(brokers, "g")
    rest = []
    for consumer in (second, third):
        consumer.subscribe(["t"])
    end = time.monotonic() + SECONDS
    while len(second.assignment()) != 2 or len(third.assignment()) != 2 or len(rest) < 200:
        for consumer in (second, third):
            rest += [m for m in consumer.consume(100, 0.2) if m.error() is None]
        check(time.monotonic() < end, f"{len(rest)} messages of 200; {second.assignment()}, {third.assignment()}")
    # A member that had read on before the other one came may have handed over partitions without a commit: those
    # records come again, and none is missing.
    check_equal({int(m.value()) for m in messages + rest}, set(range(400)), "records of both generations")
    first_half = {(m.partition(), m.offset()) for m in messages}
    check(not first_half & {(m.partition(), m.offset()) for m in rest}, "nothing committed is read again")
    committed = {p.partition: p.offset for p in third.committed([TopicPartition("t", p) for p in range(4)], SECONDS)}
    check_equal(sum(committed.values()), 200, f"what the first member committed: {committed}")

    names = [group.id for group in admin_of(brokers).list_groups(timeout=20)]
    check("g" in names, f"groups: {names}")
    found = admin_of(brokers).list_groups("g", timeout=20)[0]
    check_equal((found.state, len(found.members)), ("Stable", 2), "the group, described")
    second.close()
    third.close()


@case
def what_is_not_there_is_an_error(context):
    brokers = context.brokers(settings={"auto.create.topics.enable": "false"})
    errors = []
    producer = Producer({**client_of(brokers), "topic.metadata.propagation.max.ms": 1000})
    producer.produce("nowhere", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(SECONDS)
    check(errors and errors[0] is not None and errors[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC),
          f"a record for a topic that does not exist: {errors}")
    consumer = consumer_of(brokers, "g")
    consumer.subscribe(["nowhere"])
    message = next((m for m in (consumer.poll(1) for _ in range(SECONDS)) if m is not None), None)
    check(message is not None and message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART, "a subscription to it")
    consumer.close()

    create(brokers, "t")
    produce(brokers, "t", [(0, None, b"x")])
    strict = consumer_of(brokers, "h", **{"auto.offset.reset": "error"})
    strict.assign([TopicPartition("t", 0, 99)])
    message = next((m for m in (strict.poll(1) for _ in range(SECONDS)) if m is not None), None)
    check(message is not None and message.error() is not None, "an offset that is out of range")
    strict.close()


@case
def what_is_not_offered_is_refused_at_once(context):
    brokers = context.brokers()
    if not context.is_lockstep:
        return
    create(brokers, "t")
    producer = Producer({**client_of(brokers), "transactional.id": "x"})
    try:
        producer.init_transactions(SECONDS)
        raise AssertionError("transactions are not offered")
    except KafkaException as error:
        check_equal((error.args[0].name(), error.args[0].fatal()), ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", True), "the error")
    consumer = consumer_of(brokers, "simple")
    try:
        consumer.commit(offsets=[TopicPartition("t", 99, 5)], asynchronous=False)
        raise AssertionError("there is no partition 99")
    except KafkaException as error:
        check_equal(error.args[0].name(), "UNKNOWN_TOPIC_OR_PART", "the error")
    consumer.close()


@case
def a_producer_whose_batches_are_all_gone_goes_on(context):
    """Retention has taken all that it wrote, the active segment too, and what was remembered of it is lost."""
    if not context.is_lockstep:
        return
    brokers = context.brokers(1, {"log.retention.check.interval.ms": 500})
    admin = admin_of(brokers)
    admin.create_topics([NewTopic("old", 1, 1, config={"retention.ms": "1000"})], operation_timeout=30)["old"].result(SECONDS)
    delivered = []

    def on_delivery(error, message):
        check(error is None, f"delivery of {message.value()}: {error}")
        delivered.append(message.value())

    def write(values):
        delivered.clear()
        for value in values:
            producer.produce("old", value, partition=0, on_delivery=on_delivery)
        check_equal(producer.flush(SECONDS), 0, "records not delivered")
        check_equal(delivered, values, "records, in order")

    producer = Producer({**client_of(brokers), "enable.idempotence": True, "batch.num.messages": 5})
    write([b"a%d" % i for i in range(10)])
    consumer = consumer_of(brokers)
    wait_until(lambda: consumer.get_watermark_offsets(TopicPartition("old", 0))[0] == 10, SECONDS, "everything is too old")
    server = brokers.servers[0]
    server.stop()
    snapshots = list(Path(server.directory).rglob("old-0/*.snapshot"))
    check(snapshots, "a snapshot of the producers is there")
    for snapshot in snapshots:
        snapshot.unlink()
    server.start()
    brokers.wait_for_all()
    write([b"b%d" % i for i in range(100)])
    consumer.close()


if __name__ == "__main__":
    main()
