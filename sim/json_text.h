// Strings as JSON wants them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::sim {

// Appends `text` in quotes. Bytes from 0x80 on are taken to be UTF-8. What might end a script in a
// page is escaped as well, so that the result may stand in one.
void AppendJson(std::string* out, std::string_view text);
std::string JsonString(std::string_view text);

}  // namespace lockstep::sim
