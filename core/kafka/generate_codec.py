#!/usr/bin/env python3
"""Generates the C++ codec of Kafka's protocol from messages.schema, whose head describes the notation.

  generate_codec.py messages.schema OUT_DIR header          messages.h: the structs
  generate_codec.py messages.schema OUT_DIR source GROUP    messages_GROUP.cc: Decode and Encode of one group
  generate_codec.py messages.schema OUT_DIR apis            apis.cc: the table of APIs
  generate_codec.py messages.schema OUT_DIR arbitrary       arbitrary_messages.{h,cc}, for tests: random values

Runs at build time, with Python's standard library only. What it writes is meant to be read.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

LINE_MAX = 100
INT16_MAX = 0x7fff

# type -> (C++ type, name of the Reader's and Writer's function, bytes on the wire or None, default)
SCALARS = {
    "bool": ("bool", "Bool", 1, "false"),
    "int8": ("int8_t", "Int8", 1, "0"),
    "int16": ("int16_t", "Int16", 2, "0"),
    "int32": ("int32_t", "Int32", 4, "0"),
    "int64": ("int64_t", "Int64", 8, "0"),
    "error": ("ErrorCode", "Error", 2, "ErrorCode::kNone"),
    "uuid": ("Uuid", "Uuid", 16, ""),
}
# Those with a length before them; bytes of that length, if not flexible.
COUNTED = {
    "string": ("std::string", "String", 2),
    "bytes": ("Bytes", "Bytes", 4),
    "records": ("Records", "Records", 4),
    "[]int32": ("std::vector<int32_t>", "Int32s", 4),
    "[]string": ("std::vector<std::string>", "Strings", 4),
}


# ---- The schema -----------------------------------------------------------------------------------

@dataclass
class Struct:
    """A message, or a struct within one."""
    name: str
    low: int  # the versions in which it occurs, inclusive
    high: int
    fields: list = field(default_factory=list)


@dataclass
class Field:
    name: str
    type: str  # without "?"; for an array of structs "[]Struct"
    low: int
    high: int
    nullable_from: int | None = None
    default: str | None = None
    ignorable: bool = False
    tag: int | None = None
    struct: Struct | None = None

    @property
    def array(self):
        return self.type.startswith("[]")


@dataclass
class Message(Struct):
    api: str | None = None  # its name; None for data that is not sent by itself
    flexible_from: int | None = None
    group: str = ""


@dataclass
class Api:
    key: int
    name: str
    low: int
    high: int
    flexible_from: int | None
    group: str


FIELD = re.compile(r"(?P<name>[a-z]\w*)\s+(?P<type>(\[\])?\w+)(?P<null>\?(?P<null_from>\d+\+)?)?"
                   r"(\s+(?P<versions>\d+(\+|-\d+)?))?(\s+=\s(?P<default>\S+))?(\s+tag\s(?P<tag>\d+))?"
                   r"(\s+(?P<ignorable>ignorable))?$")


class SchemaError(Exception):
    pass


def parse_versions(text, enclosing):
    """"3+", "1-7" or "2"; must lie within the versions of what encloses it."""
    if text is None:
        return enclosing.low, enclosing.high
    if text.endswith("+"):
        low, high = int(text[:-1]), enclosing.high
    else:
        low, _, high = text.partition("-")
        low, high = int(low), int(high or low)
    if not enclosing.low <= low <= high <= enclosing.high:
        raise SchemaError(f"versions {text} are not within {enclosing.low}-{enclosing.high}")
    return low, high


def parse_field(text, enclosing):
    match = FIELD.match(text)
    if match is None:
        raise SchemaError("not a field")
    low, high = parse_versions(match["versions"], enclosing)
    result = Field(match["name"], match["type"], low, high, default=match["default"],
                   ignorable=match["ignorable"] is not None, tag=int(match["tag"]) if match["tag"] else None)
    if match["null"]:
        result.nullable_from = int(match["null_from"][:-1]) if match["null_from"] else low
        if not low <= result.nullable_from <= high:
            raise SchemaError("null in versions without the field")
    if result.type not in SCALARS and result.type not in COUNTED:
        result.struct = Struct(result.type.removeprefix("[]"), low, high)
        if not result.array and (result.nullable_from is not None or result.default):
            raise SchemaError("a struct by itself is neither null nor has it a default")
    if result.type in SCALARS and result.nullable_from is not None:
        raise SchemaError("only strings, bytes, records and arrays may be null")
    if result.tag is not None and result.type == "records":
        raise SchemaError("payloads cannot be tagged fields")
    return result


def parse(text):
    """Returns the APIs and the messages, in the order of the schema."""
    apis, messages, group = [], [], ""
    enclosing = []  # [(indentation, struct)]
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#")[0].rstrip()
        if not line:
            continue
        indentation, words = len(line) - len(line.lstrip()), line.split()
        try:
            if indentation == 0 and words[0] == "group":
                group = words[1]
            elif indentation == 0:
                low, _, high = words[-1 if words[-2] != "flexible" else -3].partition("-")
                low, high = int(low), int(high or low)
                flexible_from = int(words[-1]) if words[-2] == "flexible" else None
                if words[0] == "api":
                    api = Api(int(words[1]), words[2], low, high, flexible_from, group)
                    apis.append(api)
                elif words[0] == "data":
                    messages.append(Message(words[1], low, high, [], None, flexible_from, group))
                    enclosing = [(0, messages[-1])]
                else:
                    raise SchemaError("expected group, api or data")
            elif line.strip() in ("request", "response"):
                name = api.name + line.strip().capitalize()
                messages.append(Message(name, api.low, api.high, [], api.name, api.flexible_from, group))
                enclosing = [(indentation, messages[-1])]
            else:
                while enclosing[-1][0] >= indentation:
                    enclosing.pop()
                parsed = parse_field(line.strip(), enclosing[-1][1])
                enclosing[-1][1].fields.append(parsed)
                if parsed.struct is not None:
                    enclosing.append((indentation, parsed.struct))
        except (SchemaError, ValueError, IndexError) as error:
            sys.exit(f"messages.schema:{number}: {error}: {line.strip()}")
    for message in messages:
        check(message)
    return apis, messages


def check(message):
    names = set()
    for struct in structs_of(message):
        if struct.name in names:
            sys.exit(f"messages.schema: {message.name} has two structs {struct.name}")
        names.add(struct.name)
        for f in struct.fields:
            if f.tag is not None and (message.flexible_from is None or f.low < message.flexible_from):
                sys.exit(f"messages.schema: {message.name}.{f.name}: tagged, but not flexible")
            if f.struct is not None and not f.struct.fields:
                sys.exit(f"messages.schema: {message.name}.{f.name}: a struct without fields")


def structs_of(struct):
    """All structs within a struct and itself, inner ones first."""
    for f in struct.fields:
        if f.struct is not None:
            yield from structs_of(f.struct)
    yield struct


# ---- Facts about fields ---------------------------------------------------------------------------

def cpp_type(f, scope=""):
    if f.type in SCALARS:
        return SCALARS[f.type][0]
    if f.type in COUNTED:
        base = COUNTED[f.type][0]
    else:
        base = scope + f.struct.name
        if f.array:
            base = f"std::vector<{base}>"
    return f"std::optional<{base}>" if f.nullable_from is not None else base


def null_by_default(f):
    """A value that some version cannot express is no good default."""
    return f.nullable_from == f.low and f.default is None


def initializer(f):
    """What stands behind the member in the struct, or nothing."""
    if f.type in SCALARS:
        default = f.default if f.default is not None else SCALARS[f.type][3]
        # The lowest int32 is no literal.
        default = "INT32_MIN" if default == "-2147483648" else default
        return f" = {default}" if default else ""
    if f.nullable_from is not None and not null_by_default(f):
        return f" = {cpp_type(f)[len('std::optional<'):-1]}()"
    return ""


def is_default(f, value):
    """A condition: the member is as it is initialized."""
    if f.type in SCALARS:
        default = f.default if f.default is not None else SCALARS[f.type][3]
        if f.type == "uuid" or default == "false":
            return f"!{value}"
        if default == "true":
            return value
        return f"{value} == {'INT32_MIN' if default == '-2147483648' else default}"
    if f.nullable_from is None:
        return f"{value}.empty()" if f.array or f.type in ("string", "bytes") else f"{value} == decltype({value})()"
    if null_by_default(f):
        return f"!{value}.has_value()"
    return f"({value}.has_value() && {value}->empty())"


def negated(condition):
    if re.fullmatch(r"!\S+", condition):
        return condition[1:]
    if " == " in condition and not condition.startswith("("):
        return condition.replace(" == ", " != ")
    return f"!{condition}"


def bytes_min(struct, flexible_from, flexible):
    """The least a struct takes on the wire, in any version that is, or is not, flexible."""
    sizes = []
    for version in range(struct.low, struct.high + 1):
        if (flexible_from is not None and version >= flexible_from) == flexible:
            sizes.append(sum(field_bytes_min(f, flexible_from, flexible) for f in struct.fields
                             if f.low <= version <= f.high and f.tag is None) + flexible)
    return min(sizes) if sizes else None


def field_bytes_min(f, flexible_from, flexible):
    if f.type in SCALARS:
        return SCALARS[f.type][2]
    if f.struct is not None and not f.array:
        return bytes_min(f.struct, flexible_from, flexible)
    if flexible:
        return 1
    return COUNTED[f.type][2] if f.type in COUNTED else 4


def bytes_min_expression(struct, flexible_from):
    compact, plain = (bytes_min(struct, flexible_from, flexible) for flexible in (True, False))
    if compact is None or plain is None or compact == plain:
        return str(plain if compact is None else compact)
    return f"flexible ? {compact} : {plain}"


def presence(f, enclosing, floor=0):
    """A condition on `version` under which a field is there, given that what encloses it is; "" if always."""
    parts = []
    if f.low > max(enclosing.low, floor):
        parts.append(f"version >= {f.low}")
    if f.high < enclosing.high:
        parts.append(f"version <= {f.high}")
    return " && ".join(parts)


# ---- Lines of C++ ---------------------------------------------------------------------------------

def wrap(line):
    """Breaks a line that is too long as clang-format does, for the few kinds of line there are here."""
    if len(line) <= LINE_MAX or line.lstrip().startswith(("//", "#")):
        return [line]
    indentation = len(line) - len(line.lstrip())
    loop = re.match(r"(\s*for \(.*?\)) (\w+\(.*;)$", line)
    if loop:
        return [loop[1], " " * (indentation + 2) + loop[2]]
    # Behind " = " or the first parenthesis, if the rest then fits.
    for pattern in (r"(.* =) (.*)$", r"(.*? = [^(]*\()(.*)$", r"([^(]*\.resize\()(.*)$"):
        broken = re.match(pattern, line)
        if broken and indentation + 4 + len(broken[2]) <= LINE_MAX:
            return [broken[1], " " * (indentation + 4) + broken[2]]
    # Before the last argument that does not fit, below the first one.
    at = line.rindex(", ", 0, LINE_MAX) + 1
    depth = [i for i, c in enumerate(line[:at]) if c == "("]
    for i, c in enumerate(line[:at]):
        if c == ")":
            depth.remove(max(d for d in depth if d < i))
    return [line[:at], " " * (max(depth) + 1) + line[at + 1:]]


def under(condition, lines):
    """Lines (indented by 2) under a condition, if there is one."""
    if not condition:
        return lines
    if len(lines) == 1:
        line = f"  if ({condition}) {lines[0].lstrip()}"
        if len(line) <= LINE_MAX:
            return [line]
    return [f"  if ({condition}) {{"] + ["  " + line for line in lines] + ["  }"]


def function(head, body):
    """A function; a parameter `version` that it does not need loses its name."""
    if not any(re.search(r"\bversion\b", line) for line in body):
        head = head.replace("int16_t version", "int16_t /*version*/")
    return [head + " {"] + body + ["}", ""]


def with_flexible(message, struct, body):
    """Puts the definition of `flexible` before a body that uses it."""
    if not any(re.search(r"\bflexible\b", line) for line in body):
        return body
    if message.flexible_from is None or message.flexible_from > struct.high:
        return ["  constexpr bool flexible = false;"] + body
    if message.flexible_from <= struct.low:
        return ["  constexpr bool flexible = true;"] + body
    return [f"  const bool flexible = version >= {message.flexible_from};"] + body


def if_flexible(message, struct):
    """The condition under which a struct has tagged fields: None for never, "" for always."""
    if message.flexible_from is None or message.flexible_from > struct.high:
        return None
    return "flexible" if message.flexible_from > struct.low else ""


def nullable_argument(f, enclosing):
    """The last argument of ReadNullable... and WriteNullable..., where null depends on the version."""
    return "" if f.nullable_from <= max(f.low, enclosing.low) else f", version >= {f.nullable_from}"


def scope_of(message, struct):
    return message.name if struct is message else f"{message.name}::{struct.name}"


# ---- Reading and writing one field ----------------------------------------------------------------

def read_lines(message, enclosing, f):
    if f.type in SCALARS:
        return [f"  to->{f.name} = reader->Read{SCALARS[f.type][1]}();"]
    if f.type in COUNTED:
        nullable = f.nullable_from is not None
        arguments = "flexible" + (nullable_argument(f, enclosing) if nullable else "")
        return [f"  to->{f.name} = reader->Read{'Nullable' if nullable else ''}{COUNTED[f.type][1]}({arguments});"]
    if not f.array:
        return [f"  Read(reader, version, &to->{f.name});"]
    element = f"{message.name}::{f.struct.name}"
    arguments = f"flexible, {bytes_min_expression(f.struct, message.flexible_from)}, sizeof({element})"
    if f.nullable_from is None:
        return [f"  to->{f.name}.resize(reader->ReadCount({arguments}));",
                f"  for (auto& each : to->{f.name}) Read(reader, version, &each);"]
    arguments += nullable_argument(f, enclosing)
    return [f"  const std::optional<size_t> {f.name} = reader->ReadNullableCount({arguments});",
            f"  to->{f.name}.reset();", f"  if ({f.name}.has_value()) {{",
            f"    for (auto& each : to->{f.name}.emplace(*{f.name})) Read(reader, version, &each);", "  }"]


def write_lines(message, enclosing, f):
    if f.type in SCALARS:
        return [f"  writer->Write{SCALARS[f.type][1]}(from.{f.name});"]
    nullable = f.nullable_from is not None
    null_argument = nullable_argument(f, enclosing) if nullable else ""
    if f.type in COUNTED:
        return [f"  writer->Write{'Nullable' if nullable else ''}{COUNTED[f.type][1]}"
                f"(flexible, from.{f.name}{null_argument});"]
    if not f.array:
        return [f"  Write(from.{f.name}, version, writer);"]
    if not nullable:
        return [f"  writer->WriteCount(flexible, from.{f.name}.size());",
                f"  for (const auto& each : from.{f.name}) Write(each, version, writer);"]
    return [f"  if (from.{f.name}.has_value()) {{",
            f"    writer->WriteCount(flexible, from.{f.name}->size());",
            f"    for (const auto& each : *from.{f.name}) Write(each, version, writer);",
            "  } else {",
            f"    writer->WriteNullCount(flexible{null_argument});",
            "  }"]


def read_function(message, struct):
    body = []
    for f in struct.fields:
        if f.tag is None:
            body += under(presence(f, struct), read_lines(message, struct, f))
    condition = if_flexible(message, struct)
    tagged = sorted((f for f in struct.fields if f.tag is not None), key=lambda f: f.tag)
    if condition is not None and not tagged:
        body += under(condition, ["  reader->SkipTaggedFields();"])
    elif condition is not None:
        lines = ["  TaggedFieldReader fields(reader);", "  while (fields.Next()) {", "    switch (fields.tag()) {"]
        for f in tagged:
            present = presence(f, struct, message.flexible_from)
            lines.append(f"      case {f.tag}:")
            lines += ["      " + line for line in under(present, read_lines(message, struct, f))]
            lines.append("        break;")
        lines += ["      default:", "        break;", "    }", "  }"]
        body += under(condition, lines)
    # In the place of `flexible`, where it is known: tagged fields exist in flexible versions only.
    head = f"void Read(Reader* reader, int16_t version, {scope_of(message, struct)}* to)"
    return function(head, with_flexible(message, struct, body))


def write_function(message, struct):
    body = []
    for f in struct.fields:
        present = presence(f, struct)
        lines = write_lines(message, struct, f) if f.tag is None else []
        required = [] if f.ignorable or not present else [f"  LS_CHECK({is_default(f, f'from.{f.name}')});"]
        if not lines or not required:
            body += under(present, lines) if lines else []
            if required:
                body += under(opposite(present), required)
            continue
        body += ([f"  if ({present}) {{"] + ["  " + line for line in lines] + ["  } else {"] +
                 ["  " + line for line in required] + ["  }"])
    condition = if_flexible(message, struct)
    tagged = sorted((f for f in struct.fields if f.tag is not None), key=lambda f: f.tag)
    if condition is not None and not tagged:
        body += under(condition, ["  writer->WriteUnsignedVarint(0);  // no tagged fields"])
    elif condition is not None:
        body += under(condition, write_tagged_lines(message, struct, tagged))
    head = f"void Write(const {scope_of(message, struct)}& from, int16_t version, Writer* writer)"
    return function(head, with_flexible(message, struct, body))


def opposite(present):
    low, high = re.search(r"version >= (\d+)", present), re.search(r"version <= (\d+)", present)
    parts = ([f"version < {low[1]}"] if low else []) + ([f"version > {high[1]}"] if high else [])
    return " || ".join(parts)


def write_tagged_lines(message, struct, tagged):
    lines = []
    for f in tagged:
        present = presence(f, struct, message.flexible_from)
        wanted = negated(is_default(f, f"from.{f.name}"))
        lines.append(f"  const bool has_{f.name} = {present + ' && ' if present else ''}{wanted};")
    total, line = [], "  writer->WriteUnsignedVarint("
    for number, f in enumerate(tagged):
        part = f"has_{f.name}" + (" + " if number + 1 < len(tagged) else ");")
        if len(line + part.rstrip()) > LINE_MAX - 2:
            total.append(line.rstrip())
            line = " " * len("  writer->WriteUnsignedVarint(")
        line += part
    lines += total + [line]
    for f in tagged:
        lines += [f"  if (has_{f.name}) {{", f"    const size_t begin = writer->BeginTaggedField({f.tag});"]
        lines += ["  " + line for line in write_lines(message, struct, f)]
        lines += ["    writer->EndTaggedField(begin);", "  }"]
    return lines


# ---- Files ----------------------------------------------------------------------------------------

def banner(what):
    return ["// " + what, "// Generated by core/kafka/generate_codec.py from core/kafka/messages.schema."]


def aligned(lines):
    """Aligns the comments behind neighbouring lines, given as (code, comment)."""
    result, at = [], 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end][1]:
            end += 1
        width = max((len(code) for code, _ in lines[at:end]), default=0)
        result += [f"{code:<{width}}  // {comment}" for code, comment in lines[at:end]]
        if end == at:
            result.append(lines[at][0])
            end += 1
        at = end
    return result


def versions_text(low, high, top):
    return f"{low}+" if high == top else str(low) if low == high else f"{low}-{high}"


def member_lines(message, struct, indentation):
    lines = []
    for f in struct.fields:
        comment = []
        if (f.low, f.high) != (struct.low, struct.high):
            comment.append(versions_text(f.low, f.high, message.high))
        if f.tag is not None:
            comment.append(f"tag {f.tag}")
        if f.nullable_from is not None and f.nullable_from > f.low:
            comment.append(f"null {f.nullable_from}+")
        lines.append((" " * indentation + f"{cpp_type(f)} {f.name}{initializer(f)};", ", ".join(comment)))
    return aligned(lines)


def struct_lines(message):
    flexible = ("never flexible" if message.flexible_from is None else
                "flexible" if message.flexible_from <= message.low else f"flexible from {message.flexible_from}")
    lines = [f"// Versions {message.low} to {message.high}, {flexible}." if message.high > message.low else
             f"// Version {message.low}, {flexible}.", f"struct {message.name} {{"]
    if message.api is not None:
        lines.append(f"  static constexpr ApiKey kApi = ApiKey::k{message.api};")
    lines += [f"  static constexpr const char* kName = \"{message.name}\";",
              f"  static constexpr int16_t kVersionMin = {message.low};",
              f"  static constexpr int16_t kVersionMax = {message.high};", ""]
    for struct in structs_of(message):
        if struct is message:
            continue
        lines.append(f"  struct {struct.name} {{" + (f"  // {versions_text(struct.low, struct.high, message.high)}"
                     if (struct.low, struct.high) != (message.low, message.high) else ""))
        lines += member_lines(message, struct, 4)
        lines += ["", f"    bool operator==(const {struct.name}&) const = default;", "  };", ""]
    lines += member_lines(message, message, 2)
    lines += ["", f"  bool operator==(const {message.name}&) const = default;", "};"]
    lines += [f"absl::Status Decode(Reader* reader, int16_t version, {message.name}* to);",
              f"void Encode(const {message.name}& from, int16_t version, Writer* writer);", ""]
    return lines


HEADER = '''//
// Each message of Kafka's protocol as a plain struct, with its fields in Kafka's order and behind
// them the versions that have them (none: all), and its codec for both directions, which servers,
// clients and tests use alike.
//
//   absl::Status Decode(Reader* reader, int16_t version, Message* to);
//
// Reads a body. Fields that `version` does not have are at their defaults. Errors: kInvalidArgument
// for a version outside [kVersionMin, kVersionMax] and for bad bytes; `*to` is then of no use. What
// follows the body is left in the reader; Kafka ignores it, and so may the caller.
//
//   void Encode(const Message& from, int16_t version, Writer* writer);
//
// Requires: a version in that range; a value that is not the default in no field that `version`
// does not have, unless the schema calls the field ignorable; null nowhere where `version` has
// none. A default-constructed message can be encoded in every version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/bytes.h"
#include "core/base/uuid.h"
#include "core/kafka/error.h"
#include "core/kafka/reader.h"
#include "core/kafka/records.h"
#include "core/kafka/writer.h"

namespace lockstep::kafka {
'''


def header(apis, messages):
    lines = banner("The messages of Kafka's protocol.") + HEADER.splitlines() + [""]
    lines += ["enum class ApiKey : int16_t {"] + [f"  k{api.name} = {api.key}," for api in apis] + ["};", ""]
    group = None
    for message in messages:
        if message.group != group:
            group = message.group
            lines += [f"// ---- {group[0].upper() + group[1:]} ".ljust(LINE_MAX, "-"), ""]
        lines += struct_lines(message)
    lines += ["// All of them, for tests and tools.", "template <typename... Message>", "struct MessageList {};",
              "using AllMessages = MessageList<"]
    names, line = (", ".join(m.name for m in messages) + ">;").split(" "), "   "
    for name in names:
        if len(line) + 1 + len(name) > LINE_MAX:
            lines.append(line)
            line = "   "
        line += " " + name
    return lines + [line, "", "}  // namespace lockstep::kafka"]


def source(messages, group):
    lines = banner("Decode and Encode.") + ["#include <cstddef>", "", '#include "core/base/check.h"',
                                            '#include "core/kafka/messages.h"', "", "namespace lockstep::kafka {",
                                            "namespace {", ""]
    mine = [message for message in messages if message.group == group]
    for message in mine:
        for struct in structs_of(message):
            lines += read_function(message, struct) + write_function(message, struct)
    lines += ["}  // namespace", ""]
    for message in mine:
        range_check = f"version >= {message.low} && version <= {message.high}"
        lines += [f"absl::Status Decode(Reader* reader, int16_t version, {message.name}* to) {{",
                  f"  if (!({range_check})) {{",
                  f'    return absl::InvalidArgumentError("{message.name}: no such version");',
                  "  }", f"  *to = {message.name}();", "  Read(reader, version, to);", "  return reader->status();", "}", "",
                  f"void Encode(const {message.name}& from, int16_t version, Writer* writer) {{",
                  f"  LS_CHECK({range_check});", "  Write(from, version, writer);", "}", ""]
    return lines + ["}  // namespace lockstep::kafka"]


def api_table(apis):
    lines = banner("The table of the APIs.") + ["", '#include "core/kafka/api.h"', "", "namespace lockstep::kafka {", "namespace {", "",
                                                "constexpr ApiInfo kApis[] = {"]
    for api in sorted(apis, key=lambda api: api.key):
        flexible_from = "kNeverFlexible" if api.flexible_from is None else api.flexible_from
        lines.append(f'    {{ApiKey::k{api.name}, "{api.name}", {api.low}, {api.high}, {flexible_from}}},')
    return lines + ["};", "", "}  // namespace", "", "std::span<const ApiInfo> Apis() { return kApis; }", "",
                    "}  // namespace lockstep::kafka"]


def fill_lines(message, enclosing, f):
    nullable = f.nullable_from is not None
    if f.type in SCALARS or f.type in COUNTED:
        table = SCALARS if f.type in SCALARS else COUNTED
        arguments = f'"{f.name}"' + (nullable_argument(f, enclosing) if nullable else "")
        return [f"  to->{f.name} = filler->{'Nullable' if nullable else ''}{table[f.type][1]}({arguments});"]
    if not f.array:
        return [f"  Fill(filler, version, &to->{f.name});"]
    if not nullable:
        return [f'  to->{f.name}.resize(filler->Count("{f.name}"));',
                f"  for (auto& each : to->{f.name}) Fill(filler, version, &each);"]
    argument = nullable_argument(f, enclosing).removeprefix(", ")
    return [f"  if (filler->HasValue({argument})) {{", f'    to->{f.name}.emplace(filler->Count("{f.name}"));',
            f"    for (auto& each : *to->{f.name}) Fill(filler, version, &each);", "  } else {",
            f"    to->{f.name}.reset();", "  }"]


def arbitrary(messages):
    head = banner("Random messages, for tests.") + ["#pragma once", "", '#include "core/kafka/messages.h"',
                                                    '#include "tests/kafka/filler.h"', "", "namespace lockstep::kafka {", "",
                                                    "// Gives a value to every field that `version` has."]
    body = banner("Random messages, for tests.") + ["", '#include "arbitrary_messages.h"', "",
                                                    "namespace lockstep::kafka {", "namespace {", ""]
    public = []
    for message in messages:
        head.append(f"void Fill(Filler* filler, int16_t version, {message.name}* to);")
        for struct in structs_of(message):
            lines = []
            for f in struct.fields:
                lines += under(presence(f, struct), fill_lines(message, struct, f))
            target = public if struct is message else body
            target += function(f"void Fill(Filler* filler, int16_t version, {scope_of(message, struct)}* to)", lines)
    return (head + ["", "}  // namespace lockstep::kafka"],
            body + ["}  // namespace", ""] + public + ["}  // namespace lockstep::kafka"])


def main(schema, directory, what, group=None):
    apis, messages = parse(Path(schema).read_text())

    def write(name, lines):
        Path(directory, name).write_text("".join(part + "\n" for line in lines for part in wrap(line)))

    if what == "header":
        write("messages.h", header(apis, messages))
    elif what == "source":
        write(f"messages_{group}.cc", source(messages, group))
    elif what == "apis":
        write("apis.cc", api_table(apis))
    elif what == "arbitrary":
        head, body = arbitrary(messages)
        write("arbitrary_messages.h", head)
        write("arbitrary_messages.cc", body)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
