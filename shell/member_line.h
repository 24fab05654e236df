// The line of a zoo.cfg that names one server of the ensemble.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shell/config.h"

namespace lockstep::shell {

// `key` is server.N, `value` is
// host:learnerPort:electionPort[:participant][;[clientHost:]clientPort]. IPv6 addresses stand in
// brackets. The error is a sentence that begins with the key.
absl::StatusOr<Member> ParseMemberLine(const std::string& key, std::string_view value);

// `[::1]` -> `::1`; anything else as it is.
std::string WithoutBrackets(std::string_view host);

// `host:port` or `[ipv6]:port`, with both parts. The error is a sentence about `text`.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace lockstep::shell
