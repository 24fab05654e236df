#!/usr/bin/env python3
"""Writes golden.txt: what another implementation of Kafka's protocol, kafka-python 3.0 (`pip install kafka-python`), writes
for every message and version of ours. Each value is made of its field's name alone (Filler::ByName in filler.h), so that a
field in the wrong place, or of another type, changes the bytes.

  make_golden.py ../../core/kafka/messages.schema > golden.txt
"""

import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer

sys.path.append(str(Path(__file__).resolve().parents[2] / "core/kafka"))
import generate_codec

MODULES = [kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def fnv(name):
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def integer(name, bits):
    value = fnv(name) & (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def count(name):
    return 1 + fnv(name) % 2


def scalar(kind, name):
    if kind == "bool":
        return True
    if kind in BITS:
        return integer(name, BITS[kind])
    if kind == "bitfield":  # kafka-python's name for an int32 that it shows as a set
        return {bit for bit in range(32) if fnv(name) >> bit & 1}
    if kind == "uuid":
        return uuid.UUID(int=fnv(name) << 64 | fnv(name) ^ 0xffffffffffffffff)
    if kind == "string":
        return name
    if kind == "bytes":
        return name.encode()
    if kind == "records":
        return name.encode() * count(name)
    raise ValueError(kind)


def value(f, name, version, nulls):
    if nulls and f.nullable_for_version_q(version):
        return None
    kind = f._type_str.removeprefix("[]")
    if f.is_struct() or f.is_struct_array():
        def fill():
            return SimpleNamespace(**fields(f, version, nulls))
        return [fill() for _ in range(count(name))] if f.is_struct_array() else fill()
    if f._type_str.startswith("[]"):
        return [scalar(kind, name)] * count(name)
    return scalar(kind, name)


def kafkas_name(f, struct):
    """kafka-python has names of its own for the fields that it shows as sets."""
    if f.name != "authorized_operations" or "group_id" in struct.fields:
        return f.name
    return ("topic_" if "topic_id" in struct.fields else "cluster_") + f.name


def fields(struct, version, nulls):
    return {f.name: value(f, kafkas_name(f, struct), version, nulls) for f in struct._fields if f.for_version_q(version)}


def main(schema):
    _, messages = generate_codec.parse(Path(schema).read_text())
    for message in messages:
        found = [getattr(module, message.name) for module in MODULES if hasattr(module, message.name)]
        if not found:
            sys.exit(f"kafka-python has no {message.name}")
        for version in range(message.low, message.high + 1):
            texts = []
            for nulls in (False, True):
                body = found[0](**fields(found[0]._struct, version, nulls), version=version)
                # Only data has another header than none by default: its version.
                encoded = body.encode(version=version, header=False)
                texts.append(encoded.hex())
            print(message.name, version, *(text or "empty" for text in texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
