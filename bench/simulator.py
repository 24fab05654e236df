"""How fast the simulator is: events of simulated clusters a second, on one core."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(prog="./dev bench sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="1 to this one (300)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    program = ROOT / "build" / "release" / "lockstep-sim"
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        started = time.monotonic()
        result = subprocess.run([program, "campaign", "--seeds", f"1..{arguments.seeds}", "--jobs", "1", "--twice", "0",
                                 "--json", report],
                                capture_output=True, text=True)
        seconds = time.monotonic() - started
        if result.returncode != 0:
            sys.exit(f"the campaign failed:\n{result.stdout}{result.stderr}")
        text = report.read_text()
    events = sum(int(count) for count in re.findall(r'"events"\s*:\s*(\d+)', text))
    numbers = {"seeds": arguments.seeds, "events": events, "seconds": round(seconds, 2),
               "events_per_second": round(events / seconds), "seeds_per_second": round(arguments.seeds / seconds, 1)}
    print(json.dumps(numbers) if arguments.json else
          f"{numbers['seeds']} seeds, {events:,} events in {seconds:.1f} s on one core: "
          f"{numbers['events_per_second']:,} events/s, {numbers['seeds_per_second']} seeds/s")


if __name__ == "__main__":
    main()
