"""`./dev run`: a directory is one run's at a time."""

import fcntl
import os
import subprocess
import sys

from cases import case, check, check_equal, main
from ensemble import ROOT


def dev_run(directory, *arguments):
    """Its exit status and what it said. For runs that are refused: another would not end."""
    result = subprocess.run([sys.executable, ROOT / "dev", "run", "--dir", directory, *arguments],
                            capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout + result.stderr


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@case
def a_directory_in_use_is_refused_and_left_alone(context):
    directory = context.directory / "data"
    (directory / "server1").mkdir(parents=True)
    (directory / "ports.json").write_text('{"1": [1, 2, 3, 4]}\n')
    (directory / "server1" / "zoo.cfg").write_text("clientPort=1\n")
    with open(directory / "lock", "w") as lock:  # as another ./dev run has it
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        before = contents(directory)
        status, said = dev_run(directory)
        check_equal(status, 1, "exit status")
        check(f"{directory} is already running (pid {os.getpid()})" in said, f"what is said: {said}")
        check_equal(contents(directory), before, "the directory")


@case
def a_server_of_a_run_that_was_killed_is_named(context):
    if not context.is_lockstep:
        return
    server = context.ensemble().servers[0]
    config = server.config.read_bytes()
    status, said = dev_run(server.directory.parent)
    check_equal(status, 1, "exit status")
    check(f"still at work in {server.data} (pid {server.process.pid})" in said, f"what is said: {said}")
    check_equal(server.config.read_bytes(), config, "its configuration")


if __name__ == "__main__":
    main()
