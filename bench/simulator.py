"""What the simulator costs on one core: events and seeds in a time, memory, the share of each checker, and whether an event costs
more when a run is longer. Processor time, so that others on the machine disturb little; the best of some rounds counts."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "release" / "lockstep-sim"
SECONDS_PER_HOUR = 3600


def measure(scenario, seeds, *more):
    result = subprocess.run([PROGRAM, "measure", "--scenario", scenario, "--seeds", str(seeds), *more], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"the runs failed:\n{result.stdout}{result.stderr}")
    return json.loads(result.stdout)


def best(rounds, scenario, seeds, *more):
    """The round with the least processor time: of the same work, whatever is above it is disturbance."""
    return min((measure(scenario, seeds, *more) for _ in range(rounds)), key=lambda found: found["cpu_ns"])


def figures(scenario, seeds, rounds):
    plain = best(rounds, scenario, seeds)
    metered = best(rounds, scenario, seeds, "--meter")
    few = max(1, seeds // 10)
    short, long = best(rounds, scenario, few), best(rounds, scenario, few, "--length", "10")
    memory = measure(scenario, min(seeds, 100), "--memory")
    seconds = plain["cpu_ns"] / 1e9
    # What the clock costs is taken off the parts; shares are of the time without it.
    parts = {name: ns / metered["events"] for name, ns in metered["parts"].items()}
    per_event = plain["cpu_ns"] / plain["events"]
    parts["the rest: queue, network, disks, faults"] = per_event - sum(parts.values())
    return {
        "scenario": scenario, "seeds": seeds, "events": plain["events"], "cpu_seconds": round(seconds, 3),
        "events_per_second": round(plain["events"] / seconds), "seeds_per_hour": round(seeds / seconds * SECONDS_PER_HOUR),
        "simulated_seconds_per_second": round(plain["simulated_ns"] / plain["cpu_ns"]),
        "ns_per_event": round(per_event), "ns_per_event_of_part": {name: round(ns) for name, ns in parts.items()},
        "ns_per_event_at_1_length": round(short["cpu_ns"] / short["events"]),
        "ns_per_event_at_10_lengths": round(long["cpu_ns"] / long["events"]),
        "memory_median_mib": round(memory["median_kib"] / 1024, 1), "memory_max_mib": round(memory["max_kib"] / 1024, 1),
    }


def show(found):
    print(f"{found['scenario']}, seeds 1..{found['seeds']}, one core ({found['cpu_seconds']} s of processor time)")
    print(f"  {found['events_per_second']:>12,}  events a second ({found['ns_per_event']} ns each)")
    print(f"  {found['seeds_per_hour']:>12,}  seeds an hour ({found['events'] // found['seeds']:,} events each)")
    print(f"  {found['simulated_seconds_per_second']:>12,}  simulated seconds in one")
    print(f"  {found['memory_median_mib']:>12}  MiB that a run adds (median; at most {found['memory_max_mib']})")
    short, long = found["ns_per_event_at_1_length"], found["ns_per_event_at_10_lengths"]
    print(f"  {long:>12}  ns an event at 10 times the length ({short} at the length: {100 * (long - short) / short:+.0f} %)")
    for name, ns in found["ns_per_event_of_part"].items():
        print(f"  {ns:>12}  ns an event: {name} ({100 * ns / found['ns_per_event']:.0f} %)")


def main():
    parser = argparse.ArgumentParser(prog="./dev bench sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="1 to this one (200)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (3)")
    parser.add_argument("--scenario", action="append", help="swarm and brokers unless given")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    found = []
    for scenario in arguments.scenario or ["swarm", "brokers"]:
        # Those of brokers take several times as long.
        seeds = max(10, arguments.seeds // 5) if scenario.startswith("brokers") else arguments.seeds
        found.append(figures(scenario, seeds, arguments.rounds))
        if not arguments.json:
            show(found[-1])
    if arguments.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
