"""Three lockstepd and three Apache ZooKeeper servers (where Debian's package and Java are installed), measured in turn.

Both on loopback, with the same load generator (bench/zkload.cc), the same configuration as far as they share one, and
data directories on the same disk. The loads alternate between the two in one run, since what a machine gives moves from
minute to minute: compare the ratios, not the numbers of two runs. Sessions are spread over all three servers.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "interop"))

from ensemble import ZOOKEEPER_JAR, Ensemble, command  # noqa: E402

# load, sessions, outstanding of each, operations of a run, bytes of data
LOADS = [
    ("create", 6, 50, 60_000, 128),
    ("create", 60, 50, 120_000, 128),
    ("set", 6, 50, 60_000, 1024),
    ("set", 60, 50, 120_000, 1024),
    ("mixed", 6, 50, 120_000, 1024),
    ("get", 6, 50, 200_000, 1024),
]
QUICK_DIVISOR = 10
# ZooKeeper's defaults; only what has none is said.
SETTINGS = {"tickTime": 2000, "initLimit": 10, "syncLimit": 5, "maxClientCnxns": 0}


def machine():
    """What the numbers depend on, in one line."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return (f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, {platform.platform()}, "
            f"load {os.getloadavg()[0]:.2f}")


def sync_rate(directory, count=2000):
    """fdatasync of 512-byte appends, a second: the disk under both."""
    path = Path(directory) / "sync"
    with open(path, "wb", buffering=0) as file:
        started = time.monotonic()
        for _ in range(count):
            file.write(b"x" * 512)
            os.fdatasync(file.fileno())
        rate = count / (time.monotonic() - started)
    path.unlink()
    return rate


def memory_mb(server):
    """Resident memory of a server's process."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(zkload, ensemble, load):
    """One run of a load: operations a second, and percentiles in ms."""
    kind, sessions, outstanding, operations, size = load
    line = [str(part) for part in (zkload, ensemble.hosts, kind, sessions, outstanding, operations, size)]
    result = subprocess.run(line, capture_output=True, text=True)
    found = re.search(r"(\d+) op/s  p50 ([\d.]+) ms  p99 ([\d.]+) ms", result.stdout)
    if result.returncode != 0 or not found:
        sys.exit(f"{' '.join(line)} failed:\n{result.stdout}{result.stderr}")
    return {"ops": float(found[1]), "p50_ms": float(found[2]), "p99_ms": float(found[3])}


def describe(ensembles, zkload):
    print(f"machine: {machine()}")
    for name, ensemble in ensembles.items():
        print(f"{name}: three times `{' '.join(command(ensemble.servers[0].program, 'zoo.cfg'))}`")
    config = ensembles["lockstep"].servers[0].config.read_text().split("\n")
    print("zoo.cfg of both: " + " ".join(line for line in config if line and "127.0.0.1" not in line
                                         and not line.startswith(("dataDir", "clientPort"))))
    print(f"load: {zkload} HOSTS LOAD SESSIONS OUTSTANDING OPERATIONS BYTES\n", flush=True)


def table(results):
    """The medians of each load, side by side."""
    both = all("zookeeper" in result for result in results)
    print(f"\n{'load':24}{'lockstep op/s':>15}{'p99 ms':>9}" +
          (f"{'zookeeper op/s':>17}{'p99 ms':>9}{'throughput':>13}{'p99':>8}" if both else ""))
    for result in results:
        ours = result["lockstep"]
        line = f"{result['load']:24}{ours['ops']:>15,.0f}{ours['p99_ms']:>9.1f}"
        if both:
            theirs = result["zookeeper"]
            line += (f"{theirs['ops']:>17,.0f}{theirs['p99_ms']:>9.1f}{ours['ops'] / theirs['ops']:>12.2f}x"
                     f"{ours['p99_ms'] / theirs['p99_ms']:>7.2f}x")
        print(line)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each load on each system; the median counts (3)")
    parser.add_argument("--quick", action="store_true", help=f"1/{QUICK_DIVISOR} of the operations, one run")
    parser.add_argument("--load", default="", help="only loads whose name contains this, as in 'create 6x50'")
    parser.add_argument("--json", metavar="FILE", help="write all runs there, as JSON; - for standard output")
    parser.add_argument("--dir", help="where the data directories go; must be on the disk to measure (build/bench)")
    arguments = parser.parse_args()

    build = ROOT / "build" / "release"
    zkload = build / "bench" / "zkload"
    base = Path(arguments.dir or ROOT / "build" / "bench")
    base.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=base))
    programs = {"lockstep": build / "lockstepd"}
    if ZOOKEEPER_JAR.exists() and shutil.which("java"):
        programs["zookeeper"] = "zookeeper"
    else:
        print("Apache ZooKeeper is not installed (apt-get install zookeeper default-jre-headless): measuring Lockstep alone")
    ensembles = {name: Ensemble(program, directory / name, 3, SETTINGS)
                 for name, program in programs.items()}
    results = []
    try:
        for ensemble in ensembles.values():
            ensemble.__enter__()
        describe(ensembles, zkload.relative_to(ROOT))
        print(f"fdatasync of 512 B appends here: {sync_rate(base):,.0f} a second\n", flush=True)
        # A JVM is faster once it is warm, and nobody should win by that.
        for ensemble in ensembles.values():
            for kind in ("create", "set", "get"):
                measure(zkload, ensemble, (kind, 6, 50, 20_000, 128))
        for kind, sessions, outstanding, operations, size in LOADS:
            name = f"{kind} {sessions}x{outstanding} {size} B"
            if arguments.load not in name:
                continue
            runs = {system: [] for system in ensembles}
            for number in range(1 if arguments.quick else arguments.runs):
                for system, ensemble in ensembles.items():
                    count = operations // QUICK_DIVISOR if arguments.quick else operations
                    run = measure(zkload, ensemble, (kind, sessions, outstanding, count, size))
                    runs[system].append(run)
                    print(f"  {name:24} run {number + 1}  {system:10} {run['ops']:>10,.0f} op/s  p50 "
                          f"{run['p50_ms']:8.2f} ms  p99 {run['p99_ms']:8.2f} ms", flush=True)
            results.append({"load": name, "runs": runs, **{
                system: {key: median(run[key] for run in of) for key in ("ops", "p50_ms", "p99_ms")}
                for system, of in runs.items()}})
        table(results)
        memory = {system: [round(memory_mb(server)) for server in ensemble.servers]
                  for system, ensemble in ensembles.items()}
        print("\nresident memory of the servers, MB: " +
              "; ".join(f"{system} {' '.join(map(str, of))}" for system, of in memory.items()))
        if arguments.json:
            text = json.dumps({"machine": machine(), "settings": SETTINGS, "results": results, "memory_mb": memory},
                              indent=1)
            print(text) if arguments.json == "-" else Path(arguments.json).write_text(text + "\n")
    finally:
        for ensemble in ensembles.values():
            ensemble.__exit__()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
