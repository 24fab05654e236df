// Requests that one server answers from its own tree.
#pragma once

#include <vector>

#include "core/base/bytes.h"
#include "core/base/ids.h"
#include "core/coordination/forward.h"
#include "core/coordination/tree.h"
#include "core/coordination/watches.h"

namespace lockstep::coordination {

// Frames to send, the events first.
struct ReadAnswer {
  std::vector<Bytes> events;
  Bytes reply;
};

// The answer to exists, getData, getACL, getChildren, getChildren2, multiRead or one of the
// requests about watches, as of tree.last_zxid(). Sets and removes the watches that the request
// asks for. Any other op is Unimplemented, and a frame that cannot be decoded a MarshallingError:
// both are answers, and the connection goes on. Requires: frame.size() >= kRequestHeaderSize.
ReadAnswer AnswerRead(const Tree& tree, ConnectionId watcher, const Bytes& frame, Watches* watches);

}  // namespace lockstep::coordination
