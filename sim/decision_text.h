// Single decisions as words of a line of a schedule file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule.h"

namespace lockstep::sim {

// "350ms", "1234567ns": the largest unit that is exact.
std::string DurationText(Duration time);
std::optional<Duration> ParseDuration(std::string_view text);
std::optional<uint64_t> ParseNumber(std::string_view text);
// Of the whole text.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

std::string FaultText(const Plan& plan, const FaultDecision& fault);
std::string StepText(const ClientStep& step);
std::string StepText(const Plan& plan, const ProducerStep& step);
std::string StepText(const Plan& plan, const AdminStep& step);

// Of the words after the time (and the client's name). Empty: malformed, or nothing that this build
// knows. What they refer to exists in the plan.
std::optional<FaultDecision> ParseFault(const Plan& plan,
                                        const std::vector<std::string_view>& words);
std::optional<ClientStep> ParseClientStep(const std::vector<std::string_view>& words);
std::optional<ProducerStep> ParseProducerStep(const Plan& plan,
                                              const std::vector<std::string_view>& words);
std::optional<AdminStep> ParseAdminStep(const Plan& plan,
                                        const std::vector<std::string_view>& words);

}  // namespace lockstep::sim
