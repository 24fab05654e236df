"""What goes wrong when a server is set up: a clear sentence and the right exit status, and nothing lost.

1: this server cannot run here. 2: the command line or the configuration has an error.
"""

import shutil
import subprocess

from cases import case, check, check_equal, main
from ensemble import Ensemble


def run(context, *arguments, seconds=20):
    """Runs lockstepd, which must end by itself; returns its exit status and what it said."""
    result = subprocess.run([context.program, *map(str, arguments)], capture_output=True, text=True, timeout=seconds)
    return result.returncode, result.stdout + result.stderr


def check_fails(context, server, status, *words):
    found, text = run(context, server.config)
    check_equal(found, status, f"exit status, with:\n{text}")
    for word in words:
        check(word in text, f"`{word}` in what it says:\n{text}")


def unstarted(context, size=1):
    return context.ensemble(size, start=False)


@case
def two_servers_on_one_data_directory(context):
    ensemble = context.ensemble(1)
    first = ensemble.servers[0]
    zk = context.client(ensemble.hosts)
    zk.create("/a")
    second = unstarted(context).servers[0]
    second.config.write_text(second.config.read_text().replace(str(second.data), str(first.data)))

    check_fails(context, second, 1, str(first.data))

    check(first.running(), "the first one goes on")
    zk.create("/b")


@case
def the_data_directory_of_another_server(context):
    ensemble = context.ensemble(3)
    context.client(ensemble.hosts).create("/a")
    for server in ensemble.servers:
        server.stop()
    one, two = ensemble.servers[:2]
    shutil.rmtree(two.data)
    shutil.copytree(one.data, two.data)
    (two.data / "myid").write_text("2\n")

    check_fails(context, two, 1, str(two.data), "1", "2")


@case
def a_damaged_journal(context):
    ensemble = context.ensemble(1)
    server = ensemble.servers[0]
    zk = context.client(ensemble.hosts)
    for i in range(100):
        zk.create(f"/n{i}", b"x" * 100)
    zk.end()
    server.stop()
    # The middle of the journal: what follows it is proof that this was durable once.
    journal = max((path for path in server.data.rglob("*") if path.is_file()),
                  key=lambda path: path.read_bytes().count(b"x" * 100))
    data = bytearray(journal.read_bytes())
    at = data.find(b"x" * 100, len(data[:data.rfind(b"x" * 100)]) // 2)
    data[at + 50] ^= 1
    journal.write_bytes(data)

    check_fails(context, server, 1, journal.name)
    check_equal(journal.read_bytes() == bytes(data), True, "the file is left as it was found")


@case
def a_torn_tail_is_no_error(context):
    ensemble = context.ensemble(1)
    server = ensemble.servers[0]
    zk = context.client(ensemble.hosts)
    for i in range(100):
        zk.create(f"/n{i}", b"x" * 100)
    zk.end()
    server.kill()
    journal = max((path for path in server.data.rglob("*") if path.is_file()),
                  key=lambda path: path.read_bytes().count(b"x" * 100))
    data = bytearray(journal.read_bytes())
    half = data.rfind(b"x" * 100) + 30  # of the last create; the rest of the file is as it was made
    data[half:] = bytes(len(data) - half)
    journal.write_bytes(data)

    server.start()
    ensemble.wait_for_all()
    check_equal(len(context.client(ensemble.hosts).get_children("/")), 100, "99 nodes and /zookeeper")


@case
def a_journal_that_was_cut(context):
    ensemble = context.ensemble(1)
    server = ensemble.servers[0]
    zk = context.client(ensemble.hosts)
    zk.create("/kept", b"x" * 100)
    zk.end()
    server.stop()
    journal = max((path for path in server.data.rglob("*") if path.is_file()),
                  key=lambda path: path.read_bytes().count(b"x" * 100))
    data = journal.read_bytes()
    journal.write_bytes(data[:data.rfind(b"x" * 100)])

    check_fails(context, server, 1, journal.name, "it was cut")


@case
def a_port_in_use(context):
    first = context.ensemble(1).servers[0]
    second = unstarted(context).servers[0]
    second.config.write_text(second.config.read_text().replace(str(second.client_port), str(first.client_port)))

    check_fails(context, second, 1, str(first.client_port))


@case
def an_unknown_key(context):
    server = unstarted(context).servers[0]
    lines = server.config.read_text().splitlines()
    server.config.write_text("\n".join([*lines, "tickTimee=2000", ""]))

    check_fails(context, server, 2, f"{server.config}:{len(lines) + 1}", "tickTimee")


@case
def a_bad_value(context):
    server = unstarted(context).servers[0]
    server.config.write_text(server.config.read_text().replace("tickTime=500", "tickTime=soon"))

    check_fails(context, server, 2, str(server.config), "tickTime", "soon")


@case
def a_missing_myid(context):
    server = unstarted(context, 3).servers[0]
    (server.data / "myid").unlink()

    check_fails(context, server, 2, "myid")


@case
def a_missing_file(context):
    status, text = run(context, "/nonexistent/zoo.cfg")
    check_equal(status, 2, "exit status")
    check("/nonexistent/zoo.cfg" in text, text)


@case
def keys_that_mean_nothing_here_are_accepted_with_a_notice(context):
    ensemble = Ensemble(context.program, context.directory / "notice", 1,
                        {"autopurge.purgeInterval": 1, "admin.serverPort": 8080})
    context.ensembles.append(ensemble)
    ensemble.__enter__()
    log = ensemble.servers[0].log.read_text()
    check("autopurge.purgeInterval" in log and "admin.serverPort" in log, f"a notice for each:\n{log}")


@case
def help_and_version(context):
    status, text = run(context, "--help")
    check(status == 0 and "CONFIG" in text, text)
    status, text = run(context, "--version")
    check(status == 0 and "lockstepd" in text, text)
    check_equal(run(context)[0], 2, "exit status without arguments")


if __name__ == "__main__":
    main()
