// Who comes to the wrong port: told by the first bytes that a connection brings, so that the log
// says what is wrong where otherwise one side closes and the other tries again, for ever.
#pragma once

#include <string_view>

namespace lockstep::server {

// A sentence for the log if these bytes, at least the first four of a connection, are of another
// protocol than the port's; null if they may be of the port's own, or cannot be told.
const char* ForeignToZooKeeper(std::string_view first);
const char* ForeignToKafka(std::string_view first);

}  // namespace lockstep::server
