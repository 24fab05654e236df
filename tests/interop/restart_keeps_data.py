"""What was acknowledged is there after servers were stopped or killed, all of them too."""

from cases import case, check, check_equal, main
from ensemble import wait_until


def write(zk, first, last):
    for result in [zk.create_async(f"/n{i}", b"%d" % i) for i in range(first, last)]:
        result.get(timeout=30)


def check_all(zk, count):
    zk.sync("/")
    check_equal(sorted(name for name in zk.get_children("/") if name[0] == "n"), sorted(f"n{i}" for i in range(count)),
                "nodes")
    for i in range(0, count, 7):
        check_equal(zk.get(f"/n{i}")[0], b"%d" % i, f"/n{i}")


@case
def a_clean_stop_has_status_0_and_keeps_everything(context):
    ensemble = context.ensemble(1)
    server = ensemble.servers[0]
    zk = context.client(ensemble.hosts)
    write(zk, 0, 200)
    before = zk.exists("/n0")
    zk.end()

    status = server.stop()
    if context.is_lockstep:
        check_equal(status, 0, "exit status after SIGTERM")
    server.start()
    ensemble.wait_for_all()

    zk = context.client(ensemble.hosts)
    check_all(zk, 200)
    check_equal(zk.exists("/n0"), before, "the whole Stat")
    write(zk, 200, 300)
    check_all(zk, 300)


@case
def all_servers_killed_at_once(context):
    ensemble = context.ensemble(3)
    zk = context.client(ensemble.hosts)
    write(zk, 0, 300)

    for server in ensemble.servers:
        server.process.kill()
    for server in ensemble.servers:
        server.process.wait()
        server.start()
    ensemble.wait_for_all()

    for server in ensemble.servers:
        check_all(context.client(server.address), 300)
    wait_until(lambda: zk.connected, 20, "the old client is connected again")
    check(not zk.lost.is_set(), "its session outlived the servers")
    write(zk, 300, 320)


@case
def a_server_that_was_away_catches_up(context):
    # Far enough behind for a snapshot: the others have dropped what it lacks from memory.
    ensemble = context.ensemble(3, {"snapCount": 200})
    away = next(server for server in ensemble.servers if server.mode() == "follower")
    zk = context.client(",".join(s.address for s in ensemble.servers if s is not away))
    write(zk, 0, 100)
    away.kill()
    write(zk, 100, 2000)
    zk.delete("/n1999")

    away.start()
    ensemble.wait_for_all()

    check_all(context.client(away.address), 1999)


@case
def snapshots_and_journals_together(context):
    ensemble = context.ensemble(1, {"snapCount": 100})
    for round_number in range(4):
        zk = context.client(ensemble.hosts)
        write(zk, round_number * 500, (round_number + 1) * 500)
        check_all(zk, (round_number + 1) * 500)
        zk.end()
        ensemble.servers[0].kill()
        ensemble.servers[0].start()
        ensemble.wait_for_all()
    check_all(context.client(ensemble.hosts), 2000)


@case
def sessions_and_ephemerals_survive_a_restart(context):
    ensemble = context.ensemble(1)
    zk = context.client(ensemble.hosts)
    zk.create("/mine", ephemeral=True)
    session = zk.client_id

    ensemble.servers[0].kill()
    ensemble.servers[0].start()
    ensemble.wait_for_all()

    wait_until(lambda: zk.connected, 20, "connected again")
    check_equal(zk.retry(zk.exists, "/mine").ephemeralOwner, session[0], "owner")
    check_equal(zk.client_id, session, "session")


if __name__ == "__main__":
    main()
