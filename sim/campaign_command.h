// The commands campaign and merge of lockstep-sim.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/campaign.h"

namespace lockstep::sim {

class CampaignCommand {
 public:
  explicit CampaignCommand(CLI::App* app);
  bool parsed() const { return campaign_->parsed() || merge_->parsed(); }
  // The exit status.
  int Run() { return merge_->parsed() ? Merge() : RunManySeeds(); }

 private:
  int RunManySeeds();
  int Merge();

  CLI::App* campaign_;
  CLI::App* merge_;
  std::string seeds_;
  std::string time_;
  std::string shard_;
  std::string scenario_ = "swarm";
  bool no_budget_ = false;
  CampaignOptions options_;
  std::vector<std::string> results_;
};

}  // namespace lockstep::sim
