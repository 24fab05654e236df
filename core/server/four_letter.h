// ZooKeeper's four-letter words: commands for operators, sent as the first four bytes of a client
// connection and answered in text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/coordination/service.h"
#include "core/server/broker_role.h"
#include "core/zab/peer.h"

namespace lockstep::server {

// Whether `bytes`, the first four of a connection, are a four-letter word of ZooKeeper's. Otherwise
// they are the length of a ConnectRequest.
bool IsFourLetterWord(std::string_view bytes);

// Whether 4lw.commands.whitelist (`allowed`) lets `word` be executed; "*" allows all.
bool IsAllowed(std::string_view word, const std::vector<std::string>& allowed);

// What the answers are made from. `peer` is null until recovery has ended.
struct FourLetterContext {
  const zab::Peer* peer = nullptr;
  const coordination::Service* service = nullptr;
  size_t voters = 1;
  uint64_t proposal_bytes_last = 0;  // 0 before the first proposal
  uint64_t proposal_bytes_min = 0;
  uint64_t proposal_bytes_max = 0;
  uint64_t digests_compared = 0;   // with followers, as their leader
  uint64_t digest_mismatches = 0;  // of those
  Duration uptime;
  Instant now;
  std::string_view version;
  std::string_view conf;
  std::optional<BrokerStatus> broker;                 // for mntr; nothing without the broker role
  const std::vector<std::string>* allowed = nullptr;  // see IsAllowed
};

// The text to send before the connection is closed. Changes nothing: the caller carries out `srst`.
std::string AnswerFourLetterWord(std::string_view word, const FourLetterContext& context);

}  // namespace lockstep::server
