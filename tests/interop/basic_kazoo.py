"""What applications do with ZooKeeper, through Debian's kazoo, on three servers."""

import socket
import struct
import threading

from kazoo.exceptions import (BadArgumentsError, BadVersionError, NoChildrenForEphemeralsError, NodeExistsError,
                              NoNodeError, NotEmptyError)

from cases import case, check, check_equal, main, raises
from ensemble import wait_until

@case
def create_get_set_delete(context):
    zk = context.client(context.ensemble(3).hosts)

    check_equal(zk.create("/a", b"one"), "/a", "create")
    data, stat = zk.get("/a")
    check_equal((data, stat.version, stat.dataLength, stat.numChildren), (b"one", 0, 3, 0), "get")
    check_equal(stat.czxid, stat.mzxid, "czxid of a new node")
    check_equal(zk.set("/a", b"twoo").version, 1, "set")
    data, stat = zk.get("/a")
    check_equal((data, stat.version, stat.dataLength), (b"twoo", 1, 4), "get after set")
    check(stat.mzxid > stat.czxid and stat.mtime >= stat.ctime, "mzxid and mtime move")
    zk.delete("/a")
    check_equal(zk.exists("/a"), None, "exists after delete")


@case
def errors(context):
    zk = context.client(context.ensemble(1).hosts)
    zk.create("/a/b", makepath=True)
    zk.create("/eph", ephemeral=True)

    raises(NoNodeError, zk.get, "/none")
    raises(NoNodeError, zk.create, "/none/child")
    raises(NoNodeError, zk.get_children, "/none")
    raises(NodeExistsError, zk.create, "/a")
    raises(NotEmptyError, zk.delete, "/a")
    raises(BadVersionError, zk.set, "/a", b"x", version=7)
    raises(BadVersionError, zk.delete, "/a/b", version=7)
    raises(NoChildrenForEphemeralsError, zk.create, "/eph/child")
    raises(BadArgumentsError, zk.delete, "/")
    check_equal(zk.get("/a")[1].version, 0, "version after failed sets")


@case
def versions(context):
    zk = context.client(context.ensemble(1).hosts)
    zk.create("/v", b"")

    for version in range(20):
        check_equal(zk.set("/v", b"%d" % version, version=version).version, version + 1, "set")
    raises(BadVersionError, zk.set, "/v", b"late", version=19)
    check_equal(zk.set("/v", b"any", version=-1).version, 21, "set of any version")
    zk.delete("/v", version=21)


@case
def stat_of_a_parent(context):
    zk = context.client(context.ensemble(3).hosts)
    zk.create("/p")
    before = zk.exists("/p")

    zk.create("/p/a")
    zk.create("/p/b")
    zk.delete("/p/a")

    after = zk.exists("/p")
    check_equal((before.cversion, after.cversion), (0, 3), "cversion counts creates and deletes of children")
    check_equal((after.numChildren, after.version, after.aversion), (1, 0, 0), "other numbers")
    check_equal(after.mzxid, before.mzxid, "mzxid does not move")
    check_equal(after.pzxid, zk.last_zxid, "pzxid is that of the last change of a child")


@case
def sequence_numbers(context):
    hosts = context.ensemble(3).hosts
    zk, other = context.client(hosts), context.client(hosts)
    zk.create("/q")

    made = [(zk, other)[i % 2].create("/q/n-", sequence=True) for i in range(10)]

    check_equal(made, [f"/q/n-{i:010d}" for i in range(10)], "names")
    zk.delete("/q/n-0000000009")
    check_equal(zk.create("/q/n-", sequence=True), "/q/n-0000000010", "no name comes back")
    check_equal(zk.create("/q/e-", ephemeral=True, sequence=True), "/q/e-0000000011", "one counter a parent")


@case
def ephemerals_end_with_their_session(context):
    hosts = context.ensemble(3).hosts
    zk, owner = context.client(hosts), context.client(hosts)
    owner.create("/eph", b"x", ephemeral=True)
    check_equal(zk.sync("/eph"), "/eph", "sync")

    check_equal(zk.exists("/eph").ephemeralOwner, owner.client_id[0], "owner")
    gone = threading.Event()
    zk.exists("/eph", watch=lambda event: gone.set())
    owner.end()

    check(gone.wait(5), "the watch of the ephemeral node fires when its session is closed")
    check_equal(zk.exists("/eph"), None, "the node afterwards")


@case
def children(context):
    zk = context.client(context.ensemble(3).hosts)
    zk.create("/c")
    names = sorted(f"child-{i}" for i in range(300))
    for name in names:
        zk.create(f"/c/{name}")

    check_equal(sorted(zk.get_children("/c")), names, "getChildren")
    listed, stat = zk.get_children("/c", include_data=True)
    check_equal((sorted(listed), stat.numChildren, stat.cversion), (names, 300, 300), "getChildren2")


@case
def watches_fire_once_and_before_the_new_state_is_read(context):
    hosts = context.ensemble(3).hosts
    zk, other = context.client(hosts), context.client(hosts)
    zk.create("/w", b"0")
    other.sync("/w")
    events = []
    fired = threading.Event()

    def watch(event):
        events.append((event.type, event.path))
        fired.set()

    def next_event(action):
        fired.clear()
        action()
        check(fired.wait(5), "a watch fires")
        return events[-1]

    other.get("/w", watch=watch)
    check_equal(next_event(lambda: zk.set("/w", b"1")), ("CHANGED", "/w"), "data watch")
    zk.set("/w", b"2")
    other.sync("/w")
    check_equal((other.get("/w")[0], len(events)), (b"2", 1), "it fires once")
    other.get_children("/w", watch=watch)
    check_equal(next_event(lambda: zk.create("/w/a")), ("CHILD", "/w"), "child watch")
    other.exists("/w/b", watch=watch)
    check_equal(next_event(lambda: zk.create("/w/b")), ("CREATED", "/w/b"), "exists watch")
    other.get("/w/b", watch=watch)
    check_equal(next_event(lambda: zk.delete("/w/b")), ("DELETED", "/w/b"), "a delete")
    check_equal(len(events), 4, "events")


@case
def large_data(context):
    zk = context.client(context.ensemble(3).hosts)
    data = bytes(range(256)) * 4000  # just below jute.maxbuffer, ZooKeeper's limit of a request

    zk.create("/large", data)
    check_equal(zk.get("/large")[0] == data, True, "a megabyte comes back as it was")
    zk.set("/large", data[::-1])
    check_equal(zk.get("/large")[0] == data[::-1], True, "and again")
    zk.create("/empty", b"")
    check_equal(zk.get("/empty")[0], b"", "empty data")


@case
def names_of_all_kinds(context):
    zk = context.client(context.ensemble(1).hosts)
    for name in ["/ä", "/日本語", "/with space", "/" + "x" * 500, "/a.b", "/-"]:
        zk.create(name, name.encode())
        check_equal(zk.get(name)[0], name.encode(), name)
    check_equal(len(zk.get_children("/")), 7, "children of the root, with /zookeeper")


@case
def a_thousand_pipelined_requests(context):
    zk = context.client(context.ensemble(3).hosts)
    zk.create("/pipe")

    creates = [zk.create_async("/pipe/n-", b"%d" % i, sequence=True) for i in range(1000)]
    sets = [zk.set_async("/pipe", b"%d" % i, version=i) for i in range(1000)]
    gets = [zk.get_async("/pipe/n-%010d" % i) for i in range(1000)]

    for i in range(1000):
        check_equal(creates[i].get(timeout=30), "/pipe/n-%010d" % i, "create")
        check_equal(sets[i].get(timeout=30).version, i + 1, "set")
        check_equal(gets[i].get(timeout=30)[0], b"%d" % i, "get")


@case
def a_client_sees_its_own_writes_on_every_server(context):
    ensemble = context.ensemble(3)
    for server in ensemble.servers:
        zk = context.client(server.address)
        for i in range(100):
            path = f"/own-{server.id}-{i}"
            zk.create(path, b"x")
            check(zk.exists(path) is not None, "a write that was acknowledged is read")


@case
def sync_shows_what_others_wrote(context):
    ensemble = context.ensemble(3)
    writer, reader = (context.client(server.address) for server in ensemble.servers[:2])
    writer.create("/s", b"")
    for i in range(200):
        writer.set("/s", b"%d" % i)
        reader.sync("/s")
        check_equal(reader.get("/s")[0], b"%d" % i, "read after sync on another server")


@case
def a_session_moves_to_another_server(context):
    ensemble = context.ensemble(3)
    zk = context.client(ensemble.hosts)
    zk.create("/mine", ephemeral=True)
    session = zk.client_id
    home = zk._connection._socket.getpeername()[1]

    server = next(s for s in ensemble.servers if s.client_port == home)
    server.kill()

    wait_until(lambda: len(zk.states) >= 2 and zk.connected, 30, "connected again")
    check_equal(zk.retry(zk.exists, "/mine").ephemeralOwner, session[0], "owner of the ephemeral node")
    check_equal(zk.client_id, session, "session id and password")
    check(not zk.lost.is_set(), f"the session was not lost: {zk.states}")


def negotiated_timeout_ms(port, asked_ms):
    """Opens a session by hand, since kazoo does not tell what timeout it got."""
    request = struct.pack(">iqiq", 0, 0, asked_ms, 0) + struct.pack(">i", 16) + bytes(16) + b"\0"
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = b""
        while len(answer) < 12:
            data = connection.recv(64)
            check(data, "the server answers")
            answer += data
    return struct.unpack(">i", answer[8:12])[0]


@case
def timeouts_are_negotiated(context):
    port = context.ensemble(1).servers[0].client_port  # tickTime 500: from 1 to 10 s
    for asked, given in [(100, 1000), (4000, 4000), (60000, 10000)]:
        check_equal(negotiated_timeout_ms(port, asked), given, f"timeout for {asked} ms")


@case
def limits_of_the_timeout_are_configured(context):
    port = context.ensemble(1, {"minSessionTimeout": 3000, "maxSessionTimeout": 5000}).servers[0].client_port
    for asked, given in [(100, 3000), (4000, 4000), (60000, 5000)]:
        check_equal(negotiated_timeout_ms(port, asked), given, f"timeout for {asked} ms")


if __name__ == "__main__":
    main()
