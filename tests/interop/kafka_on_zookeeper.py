"""Brokers whose coordination service is Debian's Apache ZooKeeper 3.8: the broker role alone, on three servers.

What the brokers need of the service is what ZooKeeper offers, and any of its clients can look at what they keep there.
Skipped where Debian's package or Java is not installed.
"""

import json
import shutil

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokers import client_of
from cases import case, check, check_equal, main
from ensemble import ZOOKEEPER_JAR, Ensemble, wait_until

SECONDS = 90
PARTITIONS = 3


def produce(brokers, values):
    failed = []
    producer = Producer({**client_of(brokers), "enable.idempotence": True, "message.timeout.ms": 90_000})
    for number, value in enumerate(values):
        producer.produce("t", value, partition=number % PARTITIONS,
                         on_delivery=lambda error, _: failed.append(error) if error else None)
    check_equal(producer.flush(SECONDS), 0, "records not delivered")
    check(not failed, f"deliveries: {failed[:3]}")


def consume(brokers, count):
    consumer = Consumer({**client_of(brokers), "group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("t", p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    found = []

    def read():
        found.extend(m.value() for m in consumer.consume(1000, 0.5) if m.error() is None)
        return len(found) >= count

    wait_until(read, SECONDS, f"{count} records")
    consumer.close()
    return sorted(found)


@case
def brokers_work_on_apache_zookeeper(context):
    if not context.is_lockstep:
        return
    if not ZOOKEEPER_JAR.exists() or shutil.which("java") is None:
        print("  skipped: Debian's package zookeeper, or Java, is not installed", flush=True)
        return
    coordination = Ensemble("zookeeper", context.directory / "zookeeper", 3)
    context.ensembles.append(coordination)
    coordination.__enter__()
    brokers = context.brokers(coordination=coordination.hosts)

    zk = context.client(coordination.hosts)
    check_equal(sorted(zk.get_children("/brokers/ids")), ["1", "2", "3"], "registered brokers")
    found = json.loads(zk.get("/brokers/ids/1")[0])
    check_equal((found["host"], found["port"]), ("127.0.0.1", brokers.servers[0].broker_port), "a registration")

    admin = AdminClient(client_of(brokers))
    admin.create_topics([NewTopic("t", PARTITIONS, 3)], operation_timeout=30)["t"].result(SECONDS)
    check("t" in zk.get_children("/brokers/topics"), "the topic is a znode")
    before = [b"before %d" % n for n in range(300)]
    produce(brokers, before)
    check_equal(consume(brokers, 300), sorted(before), "records")

    victim = brokers.servers[0]
    victim.kill()
    during = [b"during %d" % n for n in range(300)]
    produce(brokers, during)
    check_equal(consume(brokers, 600), sorted(before + during), "records while a broker is dead")
    victim.start()
    brokers.wait_for_brokers()
    wait_until(lambda: all(len(p.isrs) == 3 for p in admin.list_topics("t", timeout=20).topics["t"].partitions.values()),
               SECONDS, "it is in sync again")

    coordination.wait_for_leader().kill()
    after = [b"after %d" % n for n in range(300)]
    produce(brokers, after)
    check_equal(consume(brokers, 900), sorted(before + during + after), "records after ZooKeeper lost its leader")


if __name__ == "__main__":
    main()
