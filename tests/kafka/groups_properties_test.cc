// Random lives of two groups: members that come, go, fall silent and send what is stale; appends
// that fail or wait; coordinators that die. Whatever happens:
//   * a generation has one assignment, and every member gets its own part of it;
//   * generations rise;
//   * an acknowledged offset is never lost, and is never another group's;
//   * a stable group is the same for the coordinator that loads it.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"
#include "tests/kafka/groups_rig.h"

namespace lockstep::kafka {
namespace {

constexpr int kGroups = 2;
constexpr int kClients = 4;  // of each group

struct Client {
  std::string member;
  std::optional<std::string> instance;
  int32_t generation = -1;
  std::vector<std::string> to_assign;  // by a leader
  std::optional<uint64_t> join;
  struct Sync {
    uint64_t id;
    std::string member;
    int32_t generation;
  };
  std::vector<Sync> syncs;
};

struct Model {
  std::string name;
  std::vector<Client> clients{kClients};
  // generation -> by which SyncGroup it was assigned, as its members were told.
  std::map<int32_t, std::string> assigned;
  int32_t joined_generation = 0;  // the last one that this coordinator told
  std::map<uint64_t, int64_t> commits;
  int64_t attempted = -1;
  int64_t acknowledged = -1;
};

class Life {
 public:
  explicit Life(uint64_t seed) : rig_({}, seed), random_(seed, ServerId{9}, 0, 0) {
    rig_.LeadAll();
    for (int i = 0; i < kGroups; ++i) {
      Model& group = groups_.emplace_back();
      group.name = std::string(1, static_cast<char>('g' + i));
      group.clients[0].instance = "static";
      Commit(i);  // a group that has offsets is kept
      Look();
    }
  }

  void Step() {
    const size_t g = random_.Below(kGroups);
    Client& client = groups_[g].clients[random_.Below(kClients)];
    switch (random_.Below(14)) {
      case 0:
      case 1:
      case 2:
        return Join(groups_[g], client);
      case 3:
      case 4:
      case 5:
        return Sync(groups_[g], client);
      case 6:
        rig_.Heartbeat(client.member, client.generation, groups_[g].name);
        return;
      case 7:
        if (random_.Chance(1, 3)) rig_.Leave(client.member, groups_[g].name);
        return;
      case 8:
      case 9:
        return Commit(static_cast<int>(g));
      case 10:
        return rig_.Pass(Milliseconds(random_.Between(1, 5'000)));
      case 11:
        if (random_.Chance(1, 8)) FailOver();
        return;
      case 12:
        rig_.acknowledge = random_.Chance(1, 2);
        return;
      default:
        if (rig_.appends_.empty()) return;
        rig_.Answer(random_.Chance(1, 6) ? ErrorCode::kRequestTimedOut : ErrorCode::kNone);
    }
  }

  // Takes what was answered, and checks it.
  void Look() {
    for (Model& group : groups_) {
      for (Client& client : group.clients) {
        if (client.join.has_value() && rig_.Answered(*client.join)) OnJoined(&group, &client);
        std::erase_if(client.syncs, [&](const Client::Sync& sync) {
          if (!rig_.Answered(sync.id)) return false;
          OnSynced(&group, sync);
          return true;
        });
      }
      for (auto each = group.commits.begin(); each != group.commits.end();) {
        if (!rig_.Answered(each->first)) {
          ++each;
          continue;
        }
        if (rig_.CommitError(each->first) == ErrorCode::kNone) {
          group.acknowledged = std::max(group.acknowledged, each->second);
        }
        each = group.commits.erase(each);
      }
      const int64_t committed = rig_.Committed(group.name);
      ASSERT_GE(committed, group.acknowledged);
      ASSERT_LE(committed, group.attempted);
      ASSERT_TRUE(committed < 0 || committed % kGroups == &group - groups_.data());
    }
  }

  void CompareWithTheNextCoordinator() {
    rig_.AnswerAll();
    Look();
    std::vector<DescribeGroupsResponse::Group> before;
    for (const Model& group : groups_) before.push_back(rig_.Describe(group.name));
    FailOver();
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (before[i].group_state != "Stable") continue;
      ++stable;
      EXPECT_EQ(rig_.Describe(groups_[i].name), before[i]);
    }
    Look();
  }

  int assignments = 0;
  int stable = 0;

 private:
  void Join(const Model& group, Client& client) {
    if (client.join.has_value() && random_.Chance(3, 4)) return;
    GroupJoin join;
    join.group = group.name;
    join.instance = client.instance;
    join.session_ms = 6'000;
    join.rebalance_ms = 10'000;
    join.version = random_.Chance(1, 2) ? 3 : 4;
    if (!random_.Chance(1, 8)) join.member = client.member;
    if (random_.Chance(1, 6)) join.protocols = {{"sticky", "x"}, {"range", "y"}};
    client.join = rig_.SendJoin(join);
  }

  void Sync(const Model& group, Client& client) {
    if (client.generation < 0) return;
    // An assignment says which generation it is of, who it is for, and which request made it.
    const std::string mark = std::to_string(++syncs_);
    GroupsRig::Assignments assignments;
    for (const std::string& member : client.to_assign) {
      assignments.emplace_back(member,
                               std::to_string(client.generation) + "/" + member + "/" + mark);
    }
    client.syncs.push_back(
        {rig_.SendSync(client.member, client.generation, assignments, group.name, client.instance),
         client.member, client.generation});
  }

  void Commit(int g) {
    Model& group = groups_[static_cast<size_t>(g)];
    const int64_t offset = ++commits_ * kGroups + g;
    const Client& client = group.clients[random_.Below(kClients)];
    const bool member = client.generation >= 0;
    group.attempted = offset;
    group.commits[rig_.SendCommit(offset, member ? client.member : "",
                                  member ? client.generation : -1, group.name)] = offset;
  }

  void FailOver() {
    rig_.FailOver();
    for (Model& group : groups_) {
      group.commits.clear();
      group.joined_generation = 0;
      for (Client& client : group.clients) {
        client.join.reset();
        client.syncs.clear();
      }
    }
  }

  void OnJoined(Model* group, Client* client) {
    const auto response = rig_.Get<JoinGroupResponse>(*client->join);
    client->join.reset();
    if (response.error_code == ErrorCode::kMemberIdRequired) client->member = response.member_id;
    if (response.error_code == ErrorCode::kUnknownMemberId ||
        response.error_code == ErrorCode::kFencedInstanceId) {
      client->member.clear();
      client->generation = -1;
    }
    if (response.error_code != ErrorCode::kNone) return;
    EXPECT_GE(response.generation_id, group->joined_generation);
    if (!group->assigned.empty()) {
      EXPECT_GE(response.generation_id, group->assigned.rbegin()->first);
    }
    group->joined_generation = response.generation_id;
    client->member = response.member_id;
    client->generation = response.generation_id;
    client->to_assign.clear();
    for (const auto& member : response.members) client->to_assign.push_back(member.member_id);
  }

  void OnSynced(Model* group, const Client::Sync& sync) {
    const auto response = rig_.Get<SyncGroupResponse>(sync.id);
    if (response.error_code != ErrorCode::kNone || response.assignment.empty()) return;
    const std::string assignment(response.assignment.view());
    const size_t slash = assignment.rfind('/');
    const std::string mark = assignment.substr(slash + 1);
    // A static member that started again keeps what its former self was assigned.
    if (sync.member.substr(0, 6) != "static") {
      EXPECT_EQ(assignment.substr(0, slash), std::to_string(sync.generation) + "/" + sync.member);
    }
    const auto [entry, first] = group->assigned.emplace(sync.generation, mark);
    EXPECT_EQ(entry->second, mark) << "generation " << sync.generation << " was assigned twice";
    ++assignments;
  }

  GroupsRig rig_;
  RandomStream random_;
  std::vector<Model> groups_;
  int64_t commits_ = 0;
  int syncs_ = 0;
};

TEST(GroupsProperties, OneAssignmentPerGenerationAndNoOffsetLost) {
  int assignments = 0;
  int stable = 0;
  for (uint64_t seed = 1; seed <= 100 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Life life(seed);
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
      life.Step();
      life.Look();
    }
    life.CompareWithTheNextCoordinator();
    assignments += life.assignments;
    stable += life.stable;
  }
  // Or nothing was tested.
  EXPECT_GT(assignments, 300);
  EXPECT_GT(stable, 10);
}

}  // namespace
}  // namespace lockstep::kafka
