"""What monitoring asks ZooKeeper servers on their client port."""

import re

from cases import case, check, check_equal, main
from ensemble import four_letter


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
