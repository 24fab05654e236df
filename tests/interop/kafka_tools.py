"""The tools of Apache Kafka's own bin folder, against three brokers; needs its jars (./dev bench kafka puts them there)."""

import json
import subprocess

from brokers import KAFKA_LIB
from cases import case, check, check_equal, main


def tool(brokers, name, *arguments):
    """Runs one by its class; returns its exit status and all that it said."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIB}/*", name,
               "--bootstrap-server", brokers.bootstrap, *arguments]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    return result.returncode, result.stdout + result.stderr


TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@case
def a_topics_configs_are_described_set_and_deleted(context):
    brokers = context.brokers()
    tool(brokers, TOPICS, "--create", "--topic", "t", "--partitions", "1")
    of_t = ("--entity-type", "topics", "--entity-name", "t")
    _, described = tool(brokers, CONFIGS, "--describe", "--all", *of_t)
    for shown in ("segment.ms=604800000 sensitive=false synonyms={DEFAULT_CONFIG:", "compression.type=producer",
                  "min.insync.replicas=2 sensitive=false synonyms={STATIC_BROKER_CONFIG:"):
        check(shown in described, f"{shown} in {described}")
    _, said = tool(brokers, CONFIGS, "--alter", *of_t, "--add-config", "segment.ms=100000,compression.type=producer")
    check("Completed updating" in said, said)
    check("DYNAMIC_TOPIC_CONFIG:segment.ms=100000" in tool(brokers, CONFIGS, "--describe", *of_t)[1], "segment.ms is set")
    _, said = tool(brokers, CONFIGS, "--alter", *of_t, "--delete-config", "segment.ms")
    check("Completed updating" in said, said)
    check("segment.ms" not in tool(brokers, CONFIGS, "--describe", *of_t)[1], "segment.ms is not set")
    _, said = tool(brokers, CONFIGS, "--alter", *of_t, "--add-config", "compression.type=lz4")
    check("compression.type must be producer" in said, said)


@case
def a_reassignment_is_verified(context):
    brokers = context.brokers()
    tool(brokers, TOPICS, "--create", "--topic", "t", "--replica-assignment", "1:2")
    file = context.directory / "reassign.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}))
    _, said = tool(brokers, REASSIGN, "--reassignment-json-file", file, "--execute")
    check("Successfully started" in said, said)
    # The tool waits for nothing: it is asked until the move is over.
    for _ in range(20):
        status, said = tool(brokers, REASSIGN, "--reassignment-json-file", file, "--verify")
        if "is completed" in said:
            break
    check("is completed" in said, said)
    check_equal(status, 0, f"exit status; {said}")
    check("Clearing topic-level throttles" in said and "rror" not in said, said)


@case
def log_directories_are_described(context):
    brokers = context.brokers()
    tool(brokers, TOPICS, "--create", "--topic", "t", "--replica-assignment", "1:2")
    status, said = tool(brokers, LOG_DIRS, "--describe", "--topic-list", "t")
    check_equal(status, 0, f"exit status; {said}")
    found = json.loads(said[said.index("{"):])
    replicas = {broker["broker"]: [p["partition"] for p in broker["logDirs"][0]["partitions"]] for broker in found["brokers"]}
    check_equal(replicas, {1: ["t-0"], 2: ["t-0"], 3: []}, "replicas by broker")


if __name__ == "__main__":
    if KAFKA_LIB.exists():
        main()
    else:
        print(f"skipped: kafka_tools: no Apache Kafka in {KAFKA_LIB}")
