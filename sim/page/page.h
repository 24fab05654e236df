// The page of `--format html`, made from trace.html, trace.css and the scripts when this is built.
#pragma once

#include <string_view>

namespace lockstep::sim {

// Its data, a JSON object, take the place of <!--DATA-->.
std::string_view TracePage();

}  // namespace lockstep::sim
