"""Transactions (multi) through Debian's kazoo, and `deleteall` of ZooKeeper's own command line, which needs them."""

import subprocess
import threading

from kazoo.exceptions import (BadVersionError, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency)

from cases import case, check, check_equal, main, raises
from ensemble import ZOOKEEPER_JAR


def kinds(results):
    return [type(result) for result in results]


@case
def all_or_nothing(context):
    zk = context.client(context.ensemble(3).hosts)
    zk.create("/a", b"one")

    t = zk.transaction()
    t.check("/a", 0)
    t.set_data("/a", b"two", version=0)
    t.create("/a/b", b"x")
    t.create("/a/s-", sequence=True)
    t.create("/a/e", ephemeral=True)
    t.delete("/a/b")
    checked, stat, *created, deleted = t.commit()

    check_equal((checked, stat.version, created, deleted), (True, 1, ["/a/b", "/a/s-0000000001", "/a/e"], True), "results")
    data, now = zk.get("/a")
    check_equal((data, now.version, now.numChildren, now.cversion), (b"two", 1, 2, 4), "the node afterwards")
    check_equal(now.mzxid, zk.exists("/a/e").czxid, "one zxid for all operations")

    t = zk.transaction()
    t.create("/c")
    t.set_data("/a", b"three")
    t.check("/a", 1)
    t.delete("/a/e")
    results = t.commit()

    check_equal(kinds(results), [RolledBackError, RolledBackError, BadVersionError, RuntimeInconsistency], "a refusal")
    check_equal((zk.exists("/c"), zk.get("/a")[0]), (None, b"two"), "nothing of it happened")


@case
def operations_see_those_before_them(context):
    zk = context.client(context.ensemble(1).hosts)

    t = zk.transaction()
    t.create("/p")
    t.create("/p/c")
    t.delete("/p/c")
    t.create("/p/c", b"again")
    t.check("/p/c", 0)
    check_equal(t.commit(), ["/p", "/p/c", True, "/p/c", True], "results")
    check_equal(zk.get("/p/c")[0], b"again", "the child")

    t = zk.transaction()
    t.create("/q")
    t.create("/q")
    check_equal(kinds(t.commit()), [RolledBackError, NodeExistsError], "the same node twice")
    raises(NoNodeError, zk.get, "/q")


@case
def a_refused_transaction_uses_no_sequence_number(context):
    zk = context.client(context.ensemble(3).hosts)
    zk.create("/p")
    made = []
    for _ in range(10):
        # Pipelined: the creations are judged while the refusals are in flight.
        t = zk.transaction()
        t.create("/p/n-", sequence=True)
        t.delete("/none")
        refused = t.commit_async()
        made.append(zk.create_async("/p/n-", sequence=True))
        check_equal(kinds(refused.get(timeout=10)), [RolledBackError, NoNodeError], "a refusal")

    check_equal([one.get(timeout=10) for one in made], [f"/p/n-{i:010d}" for i in range(10)], "names")


@case
def watches_fire_in_the_order_of_the_operations(context):
    hosts = context.ensemble(3).hosts
    zk, other = context.client(hosts), context.client(hosts)
    zk.create("/a")
    zk.create("/b")
    seen, complete = [], threading.Event()

    def see(event):
        seen.append((event.type, event.path))
        if len(seen) == 3:
            complete.set()

    other.sync("/")
    other.get("/a", watch=see)
    other.get("/b", watch=see)
    other.exists("/new", watch=see)
    t = zk.transaction()
    t.set_data("/b", b"x")
    t.create("/new")
    t.delete("/a")
    t.commit()

    check(complete.wait(10), f"three events, not {seen}")
    check_equal(seen, [("CHANGED", "/b"), ("CREATED", "/new"), ("DELETED", "/a")], "events")


@case
def ephemerals_end_with_their_session(context):
    hosts = context.ensemble(3).hosts
    zk, owner = context.client(hosts), context.client(hosts)
    t = owner.transaction()
    for i in range(5):
        t.create(f"/e{i}", ephemeral=True)
    t.commit()
    owner.end()

    zk.sync("/")
    check_equal([zk.exists(f"/e{i}") for i in range(5)], [None] * 5, "the nodes")


@case
def many_operations_and_a_queue_of_kazoos(context):
    zk = context.client(context.ensemble(3).hosts)
    zk.create("/m")
    t = zk.transaction()
    for i in range(2_000):
        t.create(f"/m/{i}", b"x" * 100)
    check_equal(len(t.commit()), 2_000, "results")
    check_equal(len(zk.get_children("/m")), 2_000, "children")

    queue = zk.LockingQueue("/queue")
    queue.put_all([b"one", b"two", b"three"])
    check_equal(len(queue), 3, "put_all")
    check_equal(queue.get(timeout=10), b"one", "get")
    check(queue.consume(), "consume")


@case
def deleteall_of_zookeepers_command_line(context):
    ensemble = context.ensemble(3)
    zk = context.client(ensemble.hosts)
    zk.create("/tree/of/nodes", makepath=True)
    for i in range(50):
        zk.create(f"/tree/of/nodes/{i}")

    result = subprocess.run(["java", "-cp", f"/etc/zookeeper/conf_example:{ZOOKEEPER_JAR}",
                             "-Dzookeeper.log.dir=" + str(context.directory), "org.apache.zookeeper.ZooKeeperMain",
                             "-server", ensemble.servers[0].address, "deleteall", "/tree"],
                            capture_output=True, text=True, timeout=120)

    check("Failed to delete" not in result.stdout + result.stderr, result.stdout + result.stderr)
    zk.sync("/")
    check_equal(zk.exists("/tree"), None, "the tree afterwards")


if __name__ == "__main__":
    main()
