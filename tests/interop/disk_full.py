"""A disk that fills up under a server: it stops and says so, and nothing acknowledged is lost. Needs root, for a small
tmpfs; without it the case says that it was left out."""

import os
import subprocess

from kazoo.exceptions import KazooException

from cases import case, check, check_equal, main


@case
def a_full_disk_stops_the_server_and_loses_nothing(context):
    if os.geteuid() != 0:
        print("  left out: mounting a tmpfs needs root")
        return
    ensemble = context.ensemble(1, start=False)
    server = ensemble.servers[0]
    # A journal segment may be allocated ahead, so the disk is not tiny.
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(server.data)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        print("  left out: cannot mount a tmpfs here")
        return
    try:
        (server.data / "myid").write_text("1\n")
        ensemble.__enter__()
        zk = context.client(ensemble.hosts)
        acknowledged = []
        try:
            for i in range(2000):
                zk.create_async(f"/n{i}", os.urandom(200_000)).get(timeout=10)
                acknowledged.append(i)
        except (KazooException, zk.handler.timeout_exception):
            pass
        check(acknowledged and len(acknowledged) < 2000, f"{len(acknowledged)} writes fit")
        status = server.process.wait(20)
        check_equal(status, 1, "exit status")
        check("space" in server.log_tail(), f"the log says why:\n{server.log_tail()}")
        zk.end()

        # The operator makes room.
        subprocess.run(["mount", "-o", "remount,size=400m", str(server.data)], check=True)
        server.start()
        ensemble.wait_for_all()
        zk = context.client(ensemble.hosts)
        missing = [i for i in acknowledged if zk.exists(f"/n{i}") is None]
        check(not missing, f"acknowledged writes are lost: {missing}")
        zk.create("/goes-on")
    finally:
        ensemble.__exit__()
        subprocess.run(["umount", str(server.data)], capture_output=True)


if __name__ == "__main__":
    main()
