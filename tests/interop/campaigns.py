"""Campaigns in parts: the script for GNU parallel as docs/campaigns.md has it, array jobs, interrupts, the report of all. Prints a
line per case."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIM = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build" / "release")) / "lockstep-sim"


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def run(directory, *arguments, **environment):
    return subprocess.run([SIM, *map(str, arguments)], capture_output=True, text=True, cwd=directory, timeout=300,
                          env={**os.environ, **environment})


def script(language, name):
    """The block of the document whose comment names the file."""
    for block in re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "campaigns.md").read_text(), re.S):
        if f"# {name}:" in block:
            return block
    raise AssertionError(f"docs/campaigns.md has no {name}")


def gnu_parallel(directory):
    (directory / "campaign.sh").write_text(script("sh", "campaign.sh"))
    result = subprocess.run(["sh", "campaign.sh"], capture_output=True, text=True, cwd=directory, timeout=300,
                            env={**os.environ, "LOCKSTEP_SIM": str(SIM), "SEEDS": "1..60", "SHARDS": "4"})
    check(result.returncode == 0, result.stdout[-500:] + result.stderr[-500:])
    check("nothing wrong" in result.stdout.splitlines()[-1], result.stdout[-300:])
    report = json.loads((directory / "results" / "all.report").read_text())
    whole = run(directory, "campaign", "--seeds", "1..60", "--json", "whole.json")
    check(whole.returncode == 0, whole.stdout[-300:])
    whole = json.loads((directory / "whole.json").read_text())
    for key in ("seeds", "seeds_twice", "events", "transactions", "probes"):
        check(report[key] == whole[key], f"{key}: {report[key]} in parts, {whole[key]} as a whole")
    suite = xml.parse(directory / "results" / "junit.xml").getroot()
    check(suite.get("failures") == "0" and int(suite.get("tests")) > 50, suite.attrib)


def array_jobs(directory):
    for task in (0, 1):
        result = run(directory, "campaign", "--seeds", "1..20", "--json", f"slurm{task}.json", SLURM_ARRAY_TASK_ID=str(task),
                     SLURM_ARRAY_TASK_MIN="0", SLURM_ARRAY_TASK_MAX="1", SLURM_ARRAY_TASK_COUNT="2")
        check(f"shard {task + 1} of 2 (SLURM_ARRAY_TASK_ID)" in result.stdout, result.stdout[:200] + result.stderr)
    merged = run(directory, "merge", "slurm0.json", "slurm1.json", "--json", "-")
    check(merged.returncode == 0 and '"seeds":20,' in merged.stdout, merged.stdout + merged.stderr)
    result = run(directory, "campaign", "--seeds", "1..20", "--json", "k8s.json", JOB_COMPLETION_INDEX="1", JOB_COMPLETIONS="2")
    check("shard 2 of 2 (JOB_COMPLETION_INDEX)" in result.stdout, result.stdout[:200] + result.stderr)
    merged = run(directory, "merge", "k8s.json")
    check(merged.returncode == 2 and "shard 1 of 2 is missing" in merged.stdout, merged.stdout)


def a_failure_is_told_by_all(directory):
    for shard in (1, 2):
        result = run(directory, "campaign", "--seeds", "1..6", "--break", "ack_after_durable", "--shard", f"{shard}/2", "--json",
                     f"{shard}.json")
        check(result.returncode == 1, result.stdout)
    merged = run(directory, "merge", "1.json", "2.json", "--junit", "junit.xml")
    check(merged.returncode == 1, merged.stdout)
    failed = [case for case in xml.parse(directory / "junit.xml").getroot().iter("testcase") if case.find("failure") is not None]
    check(len(failed) > 0 and "--break ack_after_durable" in failed[0].find("failure").text, "the command that runs it again")
    check(run(directory, "merge", "1.json", "1.json", "2.json").returncode == 2, "no seed counts twice")


def interrupted_it_says_what_there_is(directory):
    process = subprocess.Popen([SIM, "campaign", "--time", "1h", "--json", "result.json"], stdout=subprocess.PIPE, text=True,
                               cwd=directory, start_new_session=True)
    time.sleep(2)
    # As a terminal does: all processes of the group get it. timeout(1) tells the one that it started first, too.
    os.kill(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    check(process.returncode == 130, f"exit status {process.returncode}: {output[-300:]}")
    check("interrupted: this is what there was so far" in output, output[-300:])
    result = json.loads((directory / "result.json").read_text())
    check(result["stopped"] == "interrupted" and result["seeds"] > 0 and not result["failures"], result)


def seeds_and_time_whichever_is_first(directory):
    result = run(directory, "campaign", "--seeds", "1..10", "--time", "1h", "--json", "-")
    check(result.returncode == 0 and '"stopped":"seeds"' in result.stdout, result.stdout[:300])
    result = run(directory, "campaign", "--seeds", "1..100000000", "--time", "1s", "--json", "-")
    check(result.returncode == 0 and '"stopped":"time"' in result.stdout, result.stdout[:300])


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    cases = [gnu_parallel, array_jobs, a_failure_is_told_by_all, interrupted_it_says_what_there_is, seeds_and_time_whichever_is_first]
    failed = 0
    for case in cases:
        name = f"campaigns.{case.__name__}"
        if pattern not in name:
            continue
        if case is gnu_parallel and shutil.which("parallel") is None:
            print("skipped: GNU parallel is not installed (apt-get install parallel)", flush=True)
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                case(Path(directory))
                print(f"ok {name}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
                failed += 1
                print(f"FAILED {name}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
