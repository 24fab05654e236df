"""ZooKeeper's own C client, through the shell that Debian's zookeeper-bin has: cli_mt."""

import re
import subprocess
import threading

from cases import case, check, main

CLI_MT = "/usr/lib/zookeeper/bin/cli_mt"


def converse(hosts, commands, patience=20):
    """Sends the commands one by one, each when the answer to the last one has come: what must match the output since.
    None: cli_mt prints nothing then."""
    process = subprocess.Popen([CLI_MT, "-h", hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", bufsize=1)
    timer = threading.Timer(patience, process.kill)
    timer.start()
    try:
        for command, expected in [(None, r"Got a new session id: 0x[1-9a-f]"), *commands]:
            if command:
                process.stdin.write(command + "\n")
            answer = ""
            while expected and not re.search(expected, answer):
                line = process.stdout.readline()
                check(line, f"after `{command}`: no {expected} in:\n{answer}")
                answer += line
        process.stdin.write("quit\n")
        process.wait(10)
    finally:
        timer.cancel()
        process.kill()
        process.wait()


@case
def everyday_commands(context):
    converse(context.ensemble(3).hosts, [
        ("create /a", r"\[/a\]: rc = 0\s+name = /a\n"),
        ("create /a", r"\[/a\]: rc = -110"),
        ("set /a hello", r"/a: rc = 0 Stat:[^/]*\bversion=1\b"),
        ("get /a", r"/a: rc = 0\s+value_len = 5\s+hello\s"),
        ("create /a/b", r"\[/a/b\]: rc = 0"),
        ("ls /a", r"/a: rc = 0\s+b\s"),
        ("ls2 /a", r"/a: rc = 0\s+b\s[^/]*version=1\b"),
        ("exists /a", None),  # cli_mt says nothing if it does
        ("exists /none", r"Error -101 for /none"),
        ("sync /", r"\[/\]: rc = 0"),
        ("delete /a", r"/a: rc = -111"),
        ("delete /a/b", r"/a/b: rc = 0"),
        ("delete /a", r"/a: rc = 0"),
        ("get /a", r"/a: rc = -101"),
    ])


@case
def kinds_of_nodes(context):
    ensemble = context.ensemble(3)
    converse(ensemble.hosts, [
        ("create /dir", r"\[/dir\]: rc = 0"),
        ("create +e /dir/e", r"\[/dir/e\]: rc = 0"),
        ("create +s /dir/s-", r"name = /dir/s-0000000001"),
        ("create +es /dir/es-", r"name = /dir/es-0000000002"),
        ("create /dir/e/child", r"rc = -108"),
        ("get /dir/e", r"ephemeralOwner = [1-9a-f]"),
    ])
    zk = context.client(ensemble.hosts)
    zk.sync("/dir")
    check(zk.get_children("/dir") == ["s-0000000001"], f"what is left when the session is closed: {zk.get_children('/dir')}")


@case
def watches(context):
    converse(context.ensemble(1).hosts, [
        ("create /w", r"\[/w\]: rc = 0"),
        ("get /w", r"/w: rc = 0"),  # cli_mt sets a watch with every get, exists and ls
        ("set /w x", r"Watcher CHANGED_EVENT state = CONNECTED_STATE for path /w"),
        ("ls /w", r"/w: rc = 0"),
        ("create /w/c", r"Watcher CHILD_EVENT state = CONNECTED_STATE for path /w\n"),
        ("wexists /w/c", None),
        ("delete /w/c", r"Watcher DELETED_EVENT state = CONNECTED_STATE for path /w/c"),
    ])


if __name__ == "__main__":
    main()
