"""Three lockstepd and three Apache Kafka 4 brokers (KRaft), measured in turn with the same client, bench/kafkaload.cc.

Both on loopback and on the same disk, replication factor 3, min.insync.replicas=2, acks=all. Two durabilities:

  fsync    an acknowledged record is on the disks of all in-sync replicas: Lockstep with log.durability=fsync (its default),
           Kafka with log.flush.interval.messages=1
  flush    ... in their page caches: Lockstep with log.durability=flush, Kafka as it is

Each Lockstep server has both roles, each Kafka server is broker and controller. Loads alternate between the two in one run,
since what a machine gives moves from minute to minute: compare the ratios, not the numbers of two runs. The CPU is that of
the three servers, for each million records that they acknowledged or sent; the memory is what is resident after the last load.

Produced is to a new topic in each run, after a warm-up. Consumed is, again and again, a topic of CONSUMED MiB: the same for
both, however much they take in a run, and so that Kafka need not sync each batch of it (flush.messages of the topic).
Nothing is measured before a JVM is warm: loads of both kinds run on both systems, one after the other, until the produced
and the consumed of a round are less than a tenth above those of the rounds before (at least WARM_ROUNDS_MIN rounds).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "interop"), str(ROOT / "bench")]

from brokers import KAFKA_LIB, BrokerEnsemble, KafkaEnsemble  # noqa: E402
from ensemble import default_program  # noqa: E402
from side_by_side import machine, memory_mb, sync_rate  # noqa: E402

KAFKA_VERSION = "4.1.0"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""
# Bytes of a record, records of a batch: a batch is about 16 KiB, which is how much Java's producer collects by default.
NO_SYNCS = {"config": "flush.messages=9223372036854775807"}
SIZES = [(100, 150), (1024, 16)]
PARTITIONS = [1, 100, 1000]
CONSUMED, CONSUMED_QUICK = 128, 16  # MiB of records' values; they fit the page cache
WARM_ROUNDS_MIN, WARM_ROUNDS_MAX = 3, 8
CONNECTIONS, OUTSTANDING = 4, 5  # to each broker; of each connection, as of an idempotent producer
# What differs from the tests: failures are not the subject, and nobody should be taken for dead under load.
COMMON = {"lockstep": {"tickTime": 2000, "initLimit": 10, "syncLimit": 5, "zookeeper.session.timeout.ms": 18000,
                       "replica.lag.time.max.ms": 30000},
          "kafka": {"broker.session.timeout.ms": 18000, "broker.heartbeat.interval.ms": 2000, "replica.lag.time.max.ms": 30000}}
# With one fetcher (the default) a Kafka follower syncs one partition after the other.
DURABILITIES = {"fsync": {"lockstep": {"log.durability": "fsync"},
                          "kafka": {"log.flush.interval.messages": 1, "num.replica.fetchers": 4}},
                "flush": {"lockstep": {"log.durability": "flush"}, "kafka": {}}}


def fetch_kafka():
    """Brings the jars from Maven Central to build/kafka/lib, once."""
    if any(KAFKA_LIB.glob("kafka_*.jar")):
        return
    print(f"fetching Apache Kafka {KAFKA_VERSION} to {KAFKA_LIB}", flush=True)
    KAFKA_LIB.mkdir(parents=True, exist_ok=True)
    pom = KAFKA_LIB.parent / "pom.xml"
    pom.write_text(POM)
    subprocess.run(["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={KAFKA_LIB}"], check=True)


def cpu_seconds(ensemble):
    """What the servers have used so far, in user and kernel mode."""
    ticks = 0
    for server in ensemble.servers:
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def load(ensemble, mode, topic, **options):
    """Runs kafkaload; returns what it printed."""
    program = ROOT / "build" / "release" / "bench" / "kafkaload"
    line = [str(program), ensemble.bootstrap, mode, topic, *(f"--{key.replace('_', '-')}={value}" for key, value in options.items())]
    result = subprocess.run(line, capture_output=True, text=True)
    if result.returncode != 0:
        tails = "\n".join(f"---- server {server.id}\n{server.log_tail()}" for server in ensemble.servers)
        sys.exit(f"{' '.join(line)} failed:\n{result.stdout}{result.stderr}{tails}")
    return result.stdout


def figures(text):
    found = re.search(r"records=(\d+)  (\d+) records/s  ([\d.]+) MB/s  p50 ([\d.]+) ms  p99 ([\d.]+) ms  p99.9 ([\d.]+) ms", text)
    keys = ("records", "records_s", "mb_s", "p50_ms", "p99_ms", "p999_ms")
    return dict(zip(keys, (float(value) for value in found.groups())))


def cpu_of(ensemble, records, work):
    """What `work` returns, and the CPU seconds of the servers for each million of `records(result)` meanwhile."""
    before = cpu_seconds(ensemble)
    result = work()
    return result, (cpu_seconds(ensemble) - before) / max(records(result), 1) * 1e6


def produce(ensemble, topic, partitions, size, batch, **until):
    """On a new topic. Returns the figures and the number of records that it has at least, and at most."""
    text, cpu = cpu_of(ensemble, acknowledged, lambda: load(
        ensemble, "produce", topic, connections=CONNECTIONS, outstanding=OUTSTANDING, batch=batch, size=size, **until))
    # What was refused after it had been appended is there as well.
    again = int(re.search(r"sent again: (\d+)", text)[1])
    return figures(text) | {"cpu_s_per_million": cpu}, acknowledged(text), acknowledged(text) + again


def acknowledged(text):
    return int(re.search(r"acknowledged in all: (\d+)", text)[1])


def fill(ensemble, topic, partitions, size, batch, megabytes):
    """A topic to consume."""
    load(ensemble, "create", topic, partitions=partitions, **(NO_SYNCS if isinstance(ensemble, KafkaEnsemble) else {}))
    return produce(ensemble, topic, partitions, size, batch, megabytes=megabytes)[1:]


def consume(ensemble, topic, bounds, seconds):
    text, cpu = cpu_of(ensemble, lambda text: int(re.search(r"read in all: (\d+)", text)[1]),
                       lambda: load(ensemble, "consume", topic, connections=CONNECTIONS, seconds=seconds))
    consumed = figures(text)
    if not bounds[0] <= consumed["records"] <= bounds[1]:
        sys.exit(f"{bounds[0]:,} records were acknowledged, and {consumed['records']:,.0f} are read back")
    return consumed | {"cpu_s_per_million": cpu}


def measure(ensemble, topic, filled, partitions, size, batch, seconds, warm_up):
    """One run: produce to a new topic, then consume `filled`, a topic and how many records it has."""
    load(ensemble, "create", topic, partitions=partitions)
    produced, *_ = produce(ensemble, topic, partitions, size, batch, seconds=seconds, warm_up=warm_up)
    consumed = consume(ensemble, *filled, seconds / 2)
    produced["memory_mb"] = [round(memory_mb(server)) for server in ensemble.servers]
    load(ensemble, "delete", topic)
    return {"produce": produced, "consume": consumed}


def warm(system, ensemble, seconds, rounds_max):
    """Loads until they are no longer faster than before, and at least WARM_ROUNDS_MIN times."""
    best, rounds = {}, 0
    while rounds < rounds_max:
        rounds += 1
        grown = False
        for size, batch in SIZES:
            topic = f"warm-up-{size}-{rounds}"
            bounds = fill(ensemble, topic, 30, size, batch, CONSUMED_QUICK)
            load(ensemble, "create", f"{topic}-p", partitions=30)
            run = {"produce": produce(ensemble, f"{topic}-p", 30, size, batch, seconds=seconds, warm_up=1)[0],
                   "consume": consume(ensemble, topic, bounds, seconds)}
            for name in (topic, f"{topic}-p"):
                load(ensemble, "delete", name)
            for mode, found in run.items():
                key = f"{mode} {size} B"
                grown |= found["records_s"] > 1.1 * best.get(key, 0)
                best[key] = max(best.get(key, 0), found["records_s"])
        if not grown and rounds >= WARM_ROUNDS_MIN:
            break
    print(f"  {system} is warm after {rounds} rounds: " + ", ".join(f"{key} {rate:,.0f}/s" for key, rate in best.items()), flush=True)


def medians(runs):
    return {mode: {key: median(run[mode][key] for run in runs) for key in ("records_s", "mb_s", "p50_ms", "p99_ms", "cpu_s_per_million")}
            for mode in ("produce", "consume")} | {"memory_mb": median(sum(run["produce"]["memory_mb"]) for run in runs)}


def say(name, number, system, run):
    print(f"  {name:28} run {number}  {system:9}" + "".join(
        f" {mode} {run[mode]['records_s']:>10,.0f}/s p99 {run[mode]['p99_ms']:8.2f} ms cpu {run[mode]['cpu_s_per_million']:6.2f} s"
        for mode in ("produce", "consume")), flush=True)


def table(results):
    """The medians of each load; ratios are ours to theirs: throughput should be above 1, all else below."""
    def ratio(ours, theirs):
        return f"{ours / theirs:>7.2f}x" if theirs else f"{'-':>8}"

    both = all("kafka" in result for result in results)
    for mode in ("produce", "consume"):
        print(f"\n{mode:30}{'lockstep/s':>12}{'p99 ms':>9}{'cpu s/M':>9}{'MB':>7}" +
              (f"{'kafka/s':>13}{'p99 ms':>9}{'cpu s/M':>9}{'MB':>7}{'through':>9}{'p99':>8}{'cpu':>8}{'memory':>8}" if both else ""))
        for result in results:
            line = f"{result['load']:30}"
            for system in ("lockstep", "kafka") if both else ("lockstep",):
                of = result[system]
                line += (f"{of[mode]['records_s']:>{12 if system == 'lockstep' else 13},.0f}{of[mode]['p99_ms']:>9.1f}"
                         f"{of[mode]['cpu_s_per_million']:>9.2f}{of['memory_mb']:>7,.0f}")
            if both:
                ours, theirs = result["lockstep"], result["kafka"]
                line += " " + "".join(ratio(ours[mode][key], theirs[mode][key]) for key in ("records_s", "p99_ms", "cpu_s_per_million"))
                line += ratio(ours["memory_mb"], theirs["memory_mb"])
            print(line)


def run_durability(durability, systems, directory, arguments, loads):
    """All loads with one durability. Returns their results."""
    ensembles = {}
    for system in systems:
        kind, program = ((BrokerEnsemble, default_program()) if system == "lockstep"
                         else (KafkaEnsemble, "kafka"))
        ensembles[system] = kind(program, directory / f"{system}-{durability}", 3, {**COMMON[system], **DURABILITIES[durability][system]})
    results, count = [], 0
    try:
        for system, ensemble in ensembles.items():
            print(f"{system}, {durability}: three times `{' '.join(map(str, ensemble.servers[0].command())).replace(str(ROOT) + '/', '')}`"
                  f" with {' '.join(f'{k}={v}' for k, v in DURABILITIES[durability][system].items()) or 'defaults'}", flush=True)
            ensemble.__enter__()
        seconds, warm_up = (2, 1) if arguments.quick else (arguments.seconds, 2)
        for system, ensemble in ensembles.items():
            warm(system, ensemble, 2, 1 if arguments.quick else WARM_ROUNDS_MAX)
        for partitions, (size, batch) in loads:
            name = f"{durability} {partitions}x{size} B"
            if arguments.load not in name:
                continue
            runs = {system: [] for system in ensembles}
            megabytes = CONSUMED_QUICK if arguments.quick else CONSUMED
            filled = {system: (f"filled{partitions}x{size}", fill(ensemble, f"filled{partitions}x{size}", partitions, size, batch, megabytes))
                      for system, ensemble in ensembles.items()}
            for number in range(1, 1 + (1 if arguments.quick else arguments.runs)):
                for system, ensemble in ensembles.items():
                    count += 1
                    # The first writes to a thousand partitions make their files, on each of three replicas.
                    settle = warm_up if partitions < 1000 else 3 * warm_up
                    run = measure(ensemble, f"load{count}", filled[system], partitions, size, batch, seconds, settle)
                    runs[system].append(run)
                    say(name, number, system, run)
            for system, ensemble in ensembles.items():
                load(ensemble, "delete", filled[system][0])
            results.append({"load": name, "runs": runs, **{system: medians(of) for system, of in runs.items()}})
        return results
    finally:
        for ensemble in ensembles.values():
            ensemble.__exit__()
            shutil.rmtree(ensemble.servers[0].directory.parent, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench kafka", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each load on each system; the median counts (3)")
    parser.add_argument("--seconds", type=int, default=6, help="of producing in a run, after a warm-up of 2, or 6 with 1,000 partitions; half as long it is consumed (6)")
    parser.add_argument("--quick", action="store_true", help="one short run of each on cold systems: whether it works, not how fast it is")
    parser.add_argument("--load", default="", help="only loads whose name contains this, as in 'fsync 100x'")
    parser.add_argument("--only", choices=["lockstep", "kafka"], help="one system")
    parser.add_argument("--durability", choices=list(DURABILITIES), help="one of them")
    parser.add_argument("--json", metavar="FILE", help="write all runs there, as JSON; - for standard output")
    parser.add_argument("--dir", help="where the data directories go; must be on the disk to measure (build/bench)")
    parser.add_argument("--fetch", action="store_true", help="only bring Apache Kafka from Maven Central")
    arguments = parser.parse_args()

    os.environ.setdefault("KAFKA_HEAP", "1g")  # what Kafka's own script gives it
    systems = [arguments.only] if arguments.only else ["lockstep", "kafka"]
    if arguments.fetch or "kafka" in systems:
        fetch_kafka()
    if arguments.fetch:
        return
    base = Path(arguments.dir or ROOT / "build" / "bench")
    base.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=base))
    started = time.monotonic()
    print(f"machine: {machine()}\nfdatasync of 512 B appends here: {sync_rate(base):,.0f} a second")
    print(f"load: bench/kafkaload, {CONNECTIONS} connections to each broker with {OUTSTANDING} requests outstanding each; a load "
          "is DURABILITY PARTITIONSxBYTES\n", flush=True)
    results = []
    try:
        for durability in [arguments.durability] if arguments.durability else DURABILITIES:
            loads = [(partitions, size) for partitions in PARTITIONS for size in SIZES]
            results += run_durability(durability, systems, directory, arguments, loads)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if "lockstep" in systems:
        table(results)
    print(f"\n{time.monotonic() - started:.0f} s in all")
    if arguments.json:
        text = json.dumps({"machine": machine(), "kafka": KAFKA_VERSION, "settings": COMMON, "durabilities": DURABILITIES,
                           "results": results}, indent=1)
        print(text) if arguments.json == "-" else Path(arguments.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
