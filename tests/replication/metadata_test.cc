// What a broker knows of /brokers while it is being read.
#include "core/replication/metadata.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/replication/registry.h"

namespace lockstep::replication {
namespace {

struct Znode {
  std::string data;
  int32_t version = 0;
};
using Znodes = std::map<std::string, Znode>;

// A topic of one partition, whose ISR has been written `version` times.
Znodes TopicOf(const Uuid& id, int32_t leader_epoch, int32_t version) {
  return {{TopicPath("t"), {Encode(TopicRecord{.id = id})}},
          {PartitionPath("t", 0), {}},
          {ReplicasPath("t", 0), {Encode(ReplicasRecord{{{1}}, {}, {}})}},
          {IsrPath("t", 0), {Encode(IsrRecord{{leader_epoch}, {{{1}, {7}}}}), version}}};
}

// Answers the next read. False if there is none.
bool AnswerOne(const Znodes& znodes, MetadataCache* cache) {
  const auto read = cache->NextRead();
  if (!read.has_value()) return false;
  if (read->children) {
    std::vector<std::string_view> names;
    const std::string prefix = read->path + "/";
    for (const auto& [path, znode] : znodes) {
      const std::string_view rest = path;
      if (!rest.starts_with(prefix) || rest.find('/', prefix.size()) != std::string_view::npos) {
        continue;
      }
      names.push_back(rest.substr(prefix.size()));
    }
    cache->OnChildren(read->path, names);
  } else if (auto at = znodes.find(read->path); at != znodes.end()) {
    coordination::Stat stat;
    stat.version = at->second.version;
    cache->OnData(read->path, {Bytes::Copy(at->second.data)}, stat);
  } else {
    cache->OnNoNode(read->path, false);
  }
  return true;
}

// Seed 3205 of `brokers`: a broker that was cut off meanwhile took the former topic's ISR, with its
// version, for that of the new one, and believed nothing that came later.
TEST(MetadataCache, WhatIsKnownOfATopicIsNotThatOfItsSuccessor) {
  MetadataCache cache({1});
  cache.ReadAll();
  const Znodes before = TopicOf({1, 1}, 0, 3);
  while (AnswerOne(before, &cache)) {
  }
  ASSERT_NE(cache.FindPartition("t", 0), nullptr);
  EXPECT_EQ(cache.FindPartition("t", 0)->state.isr_version, 3);

  cache.ReadAll();
  const Znodes after = TopicOf({2, 2}, -1, 0);
  while (AnswerOne(after, &cache)) {
    const PartitionView* view = cache.FindPartition("t", 0);
    if (view == nullptr) continue;
    EXPECT_EQ(view->state.id.topic == (Uuid{2, 2}), view->state.isr_version == 0);
  }
  ASSERT_NE(cache.FindPartition("t", 0), nullptr);
  EXPECT_EQ(cache.FindPartition("t", 0)->state.id.topic, (Uuid{2, 2}));
  EXPECT_EQ(cache.FindPartition("t", 0)->state.isr_version, 0);
}

}  // namespace
}  // namespace lockstep::replication
