"""`lockstep topics`, which asks brokers as any client does: so Apache Kafka answers it too."""

import subprocess

from confluent_kafka.admin import AdminClient, NewTopic

from brokers import client_of
from cases import case, check, check_equal, main
from ensemble import default_program, wait_until


def lockstep(context, *arguments):
    """Its exit status, and what it printed, in words."""
    program = (context.program if context.is_lockstep else default_program()).parent / "lockstep"
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    return result.returncode, [line.split() for line in result.stdout.splitlines()], result.stderr


@case
def topics_are_listed_and_described(context):
    brokers = context.brokers()
    admin = AdminClient(client_of(brokers))
    for name, partitions in (("one", 1), ("three", 3)):
        admin.create_topics([NewTopic(name, partitions, 3)], operation_timeout=30)[name].result(60)

    def listed():
        status, rows, _ = lockstep(context, "topics", brokers.bootstrap)
        return status == 0 and [row for row in rows if row[0] in ("one", "three")]

    wait_until(lambda: listed() == [["one", "1", "3", "0", "0"], ["three", "3", "3", "0", "0"]], 60, "both topics, in sync")

    status, rows, _ = lockstep(context, "topics", brokers.bootstrap, "three")
    check_equal((status, rows[0][:2]), (0, ["PARTITION", "LEADER"]), "exit status and head of a description")
    check_equal([row[0] for row in rows[1:]], ["0", "1", "2"], "partitions")
    for row in rows[1:]:
        check(row[1] in ("1", "2", "3"), f"a leader: {row}")
        check_equal((sorted(row[3].split(",")), sorted(row[4].split(","))), (["1", "2", "3"],) * 2, "replicas, in sync")


@case
def what_is_wrong_is_said(context):
    brokers = context.brokers(1)
    status, rows, said = lockstep(context, "topics", brokers.bootstrap, "nowhere")
    check_equal((status, rows), (1, []), "a topic that does not exist")
    check("UNKNOWN_TOPIC_OR_PARTITION" in said, f"what is said about it: {said}")
    status, _, said = lockstep(context, "topics", "127.0.0.1:1")
    check(status == 1 and "does not answer" in said, f"nobody is there: {status} {said}")
    status, _, said = lockstep(context, "topics", "nonsense")
    check_equal(status, 2, "no address")


@case
def the_port_of_the_other_protocol_is_said(context):
    if not context.is_lockstep:
        return
    server = context.brokers(1).servers[0]
    for arguments in (["status"], ["4lw", "ruok"]):
        status, _, said = lockstep(context, *arguments, server.broker_address)
        check(status == 1 and "Kafka's protocol is spoken there" in said, f"{arguments}: {status} {said}")
    status, _, said = lockstep(context, "topics", f"127.0.0.1:{server.client_port}")
    check(status == 1 and "ZooKeeper's protocol is spoken there" in said, f"topics: {status} {said}")


if __name__ == "__main__":
    main()
