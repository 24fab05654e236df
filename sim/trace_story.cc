#include "sim/trace_story.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sim/decision_text.h"

namespace lockstep::sim {

void TraceStory::OnWorld(const std::vector<std::string>& names, uint32_t servers) {
  names_ = names;
  servers_ = servers;
  states_.assign(servers, {});
  proposed_.assign(servers, {});
  reader_->OnNodes(names, servers);
}

uint32_t TraceStory::NodeOf(std::string_view who) const {
  const auto it = std::find(names_.begin(), names_.end(), who);
  return it == names_.end() ? kNoNode : static_cast<uint32_t>(it - names_.begin());
}

void TraceStory::FollowState(NamingState* state, EventKind kind) {
  switch (kind) {
    case EventKind::kLooking:
      *state = {};
      return;
    case EventKind::kLeading:
      *state = {.leads = true, .follows = false, .synchronized = false};
      return;
    case EventKind::kFollowing:
      *state = {.leads = false, .follows = true, .synchronized = false};
      return;
    case EventKind::kEstablished:
    case EventKind::kUpToDate:
      state->synchronized = true;
      return;
    default:
      return;
  }
}

void TraceStory::OnLine(const TraceLine& line) {
  if (line.who == "fault") return line.what == "ends" ? OnFaultEnds(line) : OnFault(line);
  // What the messages tell better.
  if (line.what == "bytes" || line.what == "written") return;
  StoryRecord record;
  record.at = line.at;
  record.node = NodeOf(line.who);
  record.who = line.who;
  record.what = line.what;
  record.detail = line.detail;
  record.name = LineName(line.who, line.what);
  if (line.who == "plan") record.kind = StoryRecord::Kind::kPlan;
  if (line.event != nullptr) {
    record.kind = StoryRecord::Kind::kEvent;
    record.event = line.event;
    NamingState* state = &states_[record.node];
    record.name = ActionName(line.event->kind, *state);
    FollowState(state, line.event->kind);
  } else if (record.name == "NodeStart" || record.name == "NodeCrash") {
    states_[record.node] = {};
    proposed_[record.node] = {};
  }
  reader_->OnRecord(record);
}

void TraceStory::OnSent(const TraceBytes& bytes) {
  whole_.clear();
  messages_.OnSent(bytes, &whole_);
  for (const TracedMessage& message : whole_) {
    StoryRecord record;
    record.kind = StoryRecord::Kind::kSend;
    record.at = bytes.at;
    record.node = bytes.from;
    record.who = names_[bytes.from];
    record.name = "send";
    record.what = message.name;
    record.detail = message.detail;
    record.message = &message;
    // To the first follower it is sent to, and not to those that are synchronized with it later.
    if (message.kind == wire::Kind::kProposal && states_[bytes.from].synchronized &&
        message.zxid > proposed_[bytes.from]) {
      proposed_[bytes.from] = message.zxid;
      record.name = "LeaderProcessRequest";
    }
    if (message.kind == wire::Kind::kProposal && !states_[bytes.from].synchronized) {
      proposed_[bytes.from] = std::max(proposed_[bytes.from], message.zxid);
    }
    reader_->OnRecord(record);
  }
}

void TraceStory::OnReceived(const TraceBytes& bytes) {
  whole_.clear();
  messages_.OnReceived(bytes, &whole_);
  for (const TracedMessage& message : whole_) {
    StoryRecord record;
    record.kind = StoryRecord::Kind::kReceive;
    record.at = bytes.at;
    record.node = bytes.to;
    record.who = names_[bytes.to];
    record.name = message.kind && bytes.to < servers_
                      ? ArrivalName(*message.kind, states_[bytes.to])
                  : message.name == "request" ? std::string_view("receive-request")
                                              : std::string_view("receive-reply");
    record.what = message.name;
    record.detail = message.detail;
    record.message = &message;
    reader_->OnRecord(record);
  }
}

void TraceStory::OnFault(const TraceLine& line) {
  StoryFault fault;
  fault.id = ++faults_;
  fault.at = line.at;
  fault.kind = std::string(line.what);
  fault.detail = std::string(line.detail);
  const auto add = [&](std::string_view who) {
    const uint32_t node = NodeOf(who);
    if (node != kNoNode) fault.nodes.push_back(node);
  };
  bool lasts = false;
  for (const std::string_view word : SplitAt(line.detail, ' ')) {
    if (word.starts_with("for=")) {
      const std::optional<Duration> time = ParseDuration(word.substr(4));
      lasts = time && time->ns > 0;
      if (lasts) fault.ends = line.at + *time;
    } else if (word.starts_with("side=")) {
      for (const std::string_view node : SplitAt(word.substr(5), ',')) add(node);
    } else {
      add(word);
    }
  }
  StoryRecord record;
  record.kind = StoryRecord::Kind::kFault;
  record.at = line.at;
  record.who = line.who;
  record.name = LineName(line.who, line.what);
  record.what = line.what;
  record.detail = line.detail;
  record.fault = &fault;
  reader_->OnRecord(record);
  if (lasts) lasting_.push_back(std::move(fault));
}

// The line names the kind alone: of several, it is the one whose time is over.
void TraceStory::OnFaultEnds(const TraceLine& line) {
  // All that cuts nodes off is undone in one way.
  const auto fits = [&](const StoryFault& fault) {
    return fault.kind == line.detail ||
           (line.detail == "split" && LineName("fault", fault.kind) == "PartitionStart");
  };
  auto it = std::find_if(lasting_.begin(), lasting_.end(), [&](const StoryFault& fault) {
    return fits(fault) && fault.ends == line.at;
  });
  if (it == lasting_.end()) it = std::find_if(lasting_.begin(), lasting_.end(), fits);
  StoryRecord record;
  record.kind = StoryRecord::Kind::kFaultEnds;
  record.at = line.at;
  record.who = line.who;
  record.name = line.detail == "split" ? "PartitionRecover" : "fault-ends";
  record.what = line.what;
  record.detail = line.detail;
  if (it != lasting_.end()) record.fault = &*it;
  reader_->OnRecord(record);
  if (it != lasting_.end()) lasting_.erase(it);
}

}  // namespace lockstep::sim
