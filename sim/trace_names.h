// The names of what happens in traces of the formats ndjson, perfetto and html. They are stable: a
// program that reads a trace may rely on them, and a test holds them. Where a public TLA+
// specification has an action for it the name is the action's, so that a trace can be checked
// against the model; docs/simulator.md has the table.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/event.h"
#include "core/wire/codec.h"

namespace lockstep::sim {

// Of a server, as far as names depend on it.
struct NamingState {
  bool leads = false;         // or was elected to
  bool follows = false;       // or was elected to
  bool synchronized = false;  // its leader has said UpToDate, or it is established
};

// Of an event of a machine, in the state before it.
std::string_view ActionName(EventKind kind, const NamingState& state);
// Of a message between servers, when it has arrived at one in that state.
std::string_view ArrivalName(wire::Kind kind, const NamingState& state);
// Of a line that is not an event's: "starts" is NodeStart. `who` as in the line.
std::string_view LineName(std::string_view who, std::string_view what);

struct ActionInfo {
  std::string_view name;  // of the action
  std::string_view specification;
  std::string_view here;  // what it is in a trace of text, or which message
};
// All names that are actions of a specification.
const std::vector<ActionInfo>& AllActions();

}  // namespace lockstep::sim
