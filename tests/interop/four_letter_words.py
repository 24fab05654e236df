"""What monitoring asks ZooKeeper servers on their client port."""

import re

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from brokers import client_of
from cases import case, check, check_equal, main
from ensemble import four_letter, wait_until


@case
def ruok_answers_imok(context):
    for server in context.ensemble(3).servers:
        check_equal(four_letter(server.client_port, "ruok"), "imok", f"server {server.id}")


@case
def srvr_says_who_leads(context):
    ensemble = context.ensemble(3)
    texts = [four_letter(server.client_port, "srvr") for server in ensemble.servers]
    check_equal(sorted(re.search(r"^Mode: (\w+)$", text, re.M)[1] for text in texts),
                ["follower", "follower", "leader"], "modes")
    for text in texts:
        for key in ["Latency min/avg/max: ", "Received: ", "Sent: ", "Connections: ", "Outstanding: ", "Zxid: 0x",
                    "Node count: "]:
            check(re.search("^" + key, text, re.M), f"srvr has a line {key}:\n{text}")


@case
def srvr_of_one_server_alone(context):
    server = context.ensemble(1).servers[0]
    check("Mode: standalone" in four_letter(server.client_port, "srvr"), "Mode: standalone")


@case
def srvr_follows_the_zxid(context):
    ensemble = context.ensemble(1)
    zk = context.client(ensemble.hosts)
    zk.create("/z")
    text = four_letter(ensemble.servers[0].client_port, "srvr")
    check_equal(int(re.search(r"^Zxid: 0x([0-9a-f]+)$", text, re.M)[1], 16), zk.exists("/z").czxid, "Zxid")


@case
def stat_lists_connections(context):
    ensemble = context.ensemble(1)
    context.client(ensemble.hosts)
    text = four_letter(ensemble.servers[0].client_port, "stat")
    check("Clients:" in text and re.search(r"\n /127\.0\.0\.1:\d+\[\d+\]\(", text), f"a line for the client:\n{text}")


@case
def mntr_has_the_keys_that_exporters_read(context):
    ensemble = context.ensemble(3)
    context.client(ensemble.hosts).create("/m", ephemeral=True)
    leader = ensemble.leader()
    values = dict(line.split("\t") for line in four_letter(leader.client_port, "mntr").splitlines())
    for key in ["zk_version", "zk_server_state", "zk_avg_latency", "zk_packets_received", "zk_packets_sent",
                "zk_num_alive_connections", "zk_outstanding_requests", "zk_znode_count", "zk_watch_count",
                "zk_ephemerals_count"]:
        check(key in values, f"mntr has {key}: {sorted(values)}")
    check_equal((values["zk_server_state"], values["zk_ephemerals_count"]), ("leader", "1"), "two values")


@case
def mntr_of_brokers_counts_what_a_dead_one_leaves(context):
    brokers = context.brokers(3)
    client = AdminClient(client_of(brokers))
    for made in client.create_topics([NewTopic("t", 6, 3), NewTopic("alone", 3, 1)], operation_timeout=30).values():
        made.result(60)
    producer = Producer(client_of(brokers))
    for number in range(100):
        producer.produce("t", b"x" * 1000)
    check_equal(producer.flush(60), 0, "records that are not delivered")

    def figures(server):
        rows = [line.split("\t") for line in (four_letter(server.client_port, "mntr") or "").splitlines()]
        prefix = "lockstep_broker_"
        return {row[0][len(prefix):]: int(row[1]) for row in rows if row[0].startswith(prefix)}

    def sums(servers):
        names = ("partitions", "leader_partitions", "under_replicated_partitions", "under_min_isr_partitions")
        return [sum(figures(server).get(name, 0) for server in servers) for name in names]

    # min.insync.replicas is 2, more than the replicas of `alone`.
    wait_until(lambda: sums(brokers.servers) == [6 * 3 + 3, 6 + 3, 0, 3], 60, "all partitions are led and in sync")
    for server in brokers.servers:
        of = figures(server)
        check_equal((of["id"], of["registered"], of["fenced"], of["live_brokers"], of["offline_partitions"]),
                    (server.id, 1, 0, 3, 0), f"server {server.id}")
        check(of["log_bytes"] >= 100_000, f"server {server.id} has a copy of all records: {of}")

    dead, *alive = brokers.servers
    dead.kill()
    # Of `alone` there was one partition on each broker.
    wait_until(lambda: sums(alive) == [6 * 2 + 2, 6 + 2, 6, 2], 60, f"what server {dead.id} led has other leaders")
    for server in alive:
        of = figures(server)
        check_equal((of["live_brokers"], of["offline_partitions"]), (2, 1), f"server {server.id} without {dead.id}")
    dead.start()
    wait_until(lambda: sums(brokers.servers) == [6 * 3 + 3, 6 + 3, 0, 3], 60, "all are led and in sync again")


@case
def conf_says_how_it_is_configured(context):
    server = context.ensemble(1).servers[0]
    text = four_letter(server.client_port, "conf")
    for line in [f"clientPort={server.client_port}", "tickTime=500", "minSessionTimeout=1000", "maxSessionTimeout=10000"]:
        check(line in text.splitlines(), f"conf has {line}:\n{text}")


@case
def only_words_of_the_whitelist_are_answered(context):
    port = context.ensemble(1, {"4lw.commands.whitelist": "srvr"}).servers[0].client_port
    check_equal(four_letter(port, "ruok").strip(), "ruok is not executed because it is not in the whitelist.", "ruok")
    check("Mode:" in four_letter(port, "srvr"), "srvr is answered")


if __name__ == "__main__":
    main()
