"""addWatch, checkWatches, removeWatches and setWatches2, byte by byte: kazoo 2.8 does not know them.

The same answers and events come from Apache ZooKeeper 3.8 (--server zookeeper).
"""

import socket
import struct

from cases import case, check_equal, main

CREATED, DELETED, DATA, CHILDREN = 1, 2, 3, 4
PERSISTENT, RECURSIVE = 0, 1  # modes of addWatch
ANY = 3  # a type of checkWatches and removeWatches
NO_WATCHER, MARSHALLING_ERROR = -121, -5


def string(text):
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def strings(texts):
    return struct.pack(">i", len(texts)) + b"".join(map(string, texts))


class Raw:
    """One connection with a session of its own; it keeps the events that come."""

    def __init__(self, server, timeout_ms=10_000, session=0, password=bytes(16), last_zxid=0):
        self.socket = socket.create_connection(("127.0.0.1", server.client_port), 10)
        self.events, self.last_zxid, self.xid = [], last_zxid, 0
        self._send(struct.pack(">iqiqi", 0, last_zxid, timeout_ms, session, 16) + password + b"\0")
        answer = self._frame()
        _, self.timeout_ms, self.session, length = struct.unpack_from(">iiqi", answer)
        self.password = answer[20:20 + length]

    def _send(self, frame):
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise AssertionError("the server has closed the connection")
            data += piece
        return data

    def _frame(self):
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def request(self, op, body=b"", xid=None):
        """The error and the body of the reply; events that come before it are kept."""
        if xid is None:
            self.xid += 1
            xid = self.xid
        self._send(struct.pack(">ii", xid, op) + body)
        while True:
            frame = self._frame()
            got, zxid, error = struct.unpack_from(">iqi", frame)
            if got == -1:
                kind, _, length = struct.unpack_from(">iii", frame, 16)
                self.events.append((kind, frame[28:28 + length].decode()))
                continue
            check_equal(got, xid, "xid of the reply")
            self.last_zxid = max(self.last_zxid, zxid)
            return error, frame[16:]

    def add_watch(self, path, mode):
        return self.request(106, string(path) + struct.pack(">i", mode))

    def check_watches(self, path, kind):
        return self.request(17, string(path) + struct.pack(">i", kind))[0]

    def remove_watches(self, path, kind):
        return self.request(18, string(path) + struct.pack(">i", kind))[0]

    def get(self, path, watch=False):
        return self.request(4, string(path) + bytes([watch]))[0]

    def take_events(self):
        """After a sync, with which all events of what was committed before have come."""
        check_equal(self.request(9, string("/"))[0], 0, "error of sync")
        events, self.events = self.events, []
        return events

    def close(self):
        self.socket.close()


@case
def a_persistent_watch_sees_data_and_children_again_and_again(context):
    ensemble = context.ensemble(1)
    zk, raw = context.client(ensemble.hosts), Raw(ensemble.servers[0])

    check_equal(raw.add_watch("/p", PERSISTENT), (0, bytes(4)), "error and body of addWatch")
    for _ in range(2):
        zk.create("/p")
        zk.set("/p", b"x")
        zk.create("/p/c")
        zk.set("/p/c", b"x")
        zk.delete("/p/c")
        zk.delete("/p")

    once = [(CREATED, "/p"), (DATA, "/p"), (CHILDREN, "/p"), (CHILDREN, "/p"), (DELETED, "/p")]
    check_equal(raw.take_events(), once * 2, "events")


@case
def a_recursive_watch_sees_the_subtree_and_no_lists_of_children(context):
    ensemble = context.ensemble(1)
    zk, raw = context.client(ensemble.hosts), Raw(ensemble.servers[0])
    zk.create("/r")

    raw.add_watch("/r", RECURSIVE)
    zk.create("/r/a/b", makepath=True)
    zk.set("/r/a/b", b"x")
    zk.create("/rr")
    zk.delete("/r", recursive=True)

    check_equal(raw.take_events(),
                [(CREATED, "/r/a"), (CREATED, "/r/a/b"), (DATA, "/r/a/b"), (DELETED, "/r/a/b"), (DELETED, "/r/a"),
                 (DELETED, "/r")], "events")


@case
def a_change_is_one_event_for_a_connection(context):
    ensemble = context.ensemble(1)
    zk, raw = context.client(ensemble.hosts), Raw(ensemble.servers[0])
    zk.create("/a/b", makepath=True)

    for path, mode in ("/", RECURSIVE), ("/a", RECURSIVE), ("/a/b", PERSISTENT):
        raw.add_watch(path, mode)
    raw.request(8, string("/a/b") + b"\1")  # getChildren
    zk.delete("/a/b")

    check_equal(raw.take_events(), [(DELETED, "/a/b")], "events")


@case
def watches_are_checked_and_removed(context):
    ensemble = context.ensemble(1)
    zk, raw = context.client(ensemble.hosts), Raw(ensemble.servers[0])
    zk.create("/a")

    check_equal(raw.check_watches("/a", ANY), NO_WATCHER, "a path without watches")
    raw.add_watch("/a", PERSISTENT)
    check_equal(raw.check_watches("/a", ANY), 0, "a path with a watch")
    check_equal(raw.remove_watches("/b", ANY), NO_WATCHER, "another path")
    check_equal(raw.remove_watches("/a", ANY), 0, "the watch is removed")
    check_equal(raw.remove_watches("/a", ANY), NO_WATCHER, "once")
    zk.set("/a", b"x")
    check_equal(raw.take_events(), [], "events")
    check_equal(raw.remove_watches("/a", 99), MARSHALLING_ERROR, "a type that does not exist")
    check_equal(raw.add_watch("/a", 99)[0], MARSHALLING_ERROR, "a mode that does not exist")


@case
def set_watches2_arms_persistent_watches_on_another_server(context):
    ensemble = context.ensemble(3)
    zk, raw = context.client(ensemble.hosts), Raw(ensemble.servers[0])
    zk.create("/a/b", makepath=True)
    raw.take_events()
    raw.add_watch("/a", RECURSIVE)
    raw.close()
    zk.set("/a/b", b"missed")
    zk.sync("/")

    seen = raw.last_zxid
    raw = Raw(ensemble.servers[1], session=raw.session, password=raw.password, last_zxid=seen)
    raw.request(9, string("/"))  # sync: what was missed is in the state that the watches are set on
    lists = strings(["/a/b"]) + strings([]) * 2 + strings(["/a"]) + strings(["/"])
    check_equal(raw.request(105, struct.pack(">q", seen) + lists, xid=-8), (0, b""), "reply to setWatches2")
    check_equal(raw.events, [(DATA, "/a/b")], "what the one-shot watch has missed")
    raw.events = []
    zk.create("/a/c")
    zk.set("/a/b", b"x")
    check_equal(raw.take_events(), [(CREATED, "/a/c"), (CHILDREN, "/a"), (DATA, "/a/b")], "events")


if __name__ == "__main__":
    main()
