#include "shell/file_order.h"

#include <map>
#include <set>

#include "core/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::shell {
namespace {

using storage::FileOp;
using storage::OpKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ticket = FileOrder::Ticket;

FileOp Op(OpKind kind, std::string file, uint64_t offset = 0, uint64_t size = 10) {
  FileOp op{.kind = kind,
            .directory = storage::Directory::kLogs,
            .file = std::move(file),
            .offset = offset,
            .size = size};
  if (kind == OpKind::kWrite) op.data = {Bytes::Copy(std::string(size, 'x'))};
  if (kind == OpKind::kRename) op.target = op.file + ".renamed";
  return op;
}

class FileOrderTest : public testing::Test {
 protected:
  // Whether it may be carried out at once.
  bool Add(const FileOp& op) { return order_.Add(op, &last_); }
  std::vector<Ticket> Done(Ticket ticket) {
    std::vector<Ticket> ready;
    order_.Done(ticket, &ready);
    return ready;
  }

  FileOrder order_;
  Ticket last_ = 0;
};

TEST_F(FileOrderTest, FilesAreApart) {
  EXPECT_TRUE(Add(Op(OpKind::kSync, "a/f")));
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "a/g")));
  EXPECT_TRUE(Add(Op(OpKind::kRead, "a/h")));
  EXPECT_TRUE(Add(Op(OpKind::kTruncate, "b/f")));
}

TEST_F(FileOrderTest, ReadsAndLaterWritesGoBesideASync) {
  EXPECT_TRUE(Add(Op(OpKind::kSync, "f")));
  EXPECT_TRUE(Add(Op(OpKind::kRead, "f")));
  EXPECT_TRUE(Add(Op(OpKind::kSync, "f")));
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "f", 100)));
}

TEST_F(FileOrderTest, ASyncWaitsForTheWritesBeforeIt) {
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "f", 0)));
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "f", 10)));
  EXPECT_FALSE(Add(Op(OpKind::kSync, "f")));
  EXPECT_FALSE(Add(Op(OpKind::kWrite, "f", 20)));  // it does not overtake the sync
  EXPECT_THAT(Done(1), IsEmpty());
  EXPECT_THAT(Done(2), ElementsAre(3, 4));
}

TEST_F(FileOrderTest, AReadWaitsForWritesOfWhatItReads) {
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "f", 100, 50)));
  EXPECT_TRUE(Add(Op(OpKind::kRead, "f", 0, 100)));
  EXPECT_FALSE(Add(Op(OpKind::kRead, "f", 0, 101)));
  EXPECT_THAT(Done(1), ElementsAre(3));
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "f", 101, 50)));
  EXPECT_FALSE(Add(Op(OpKind::kWrite, "f", 100, 1)));
}

TEST_F(FileOrderTest, AReadToTheEndWaitsForEveryWrite) {
  EXPECT_TRUE(Add(Op(OpKind::kWrite, "f", 100)));
  EXPECT_FALSE(Add(Op(OpKind::kRead, "f", 50, UINT64_MAX)));
}

TEST_F(FileOrderTest, AReplacedFileHasItsStepsOneAfterTheOther) {
  EXPECT_TRUE(Add(Op(OpKind::kCreate, "d/f")));
  EXPECT_FALSE(Add(Op(OpKind::kWrite, "d/f")));
  EXPECT_FALSE(Add(Op(OpKind::kSync, "d/f")));
  EXPECT_FALSE(Add(Op(OpKind::kRename, "d/f")));
  EXPECT_FALSE(Add(Op(OpKind::kSyncDirectory, "d")));
  EXPECT_FALSE(Add(Op(OpKind::kRead, "d/f.renamed")));
  EXPECT_THAT(Done(1), ElementsAre(2));
  EXPECT_THAT(Done(2), ElementsAre(3));
  EXPECT_THAT(Done(3), ElementsAre(4));
  EXPECT_THAT(Done(4), ElementsAre(5, 6));
}

TEST_F(FileOrderTest, ADirectoryIsMadeBeforeWhatIsInIt) {
  EXPECT_TRUE(Add(Op(OpKind::kMakeDirectory, "d")));
  EXPECT_FALSE(Add(Op(OpKind::kCreate, "d/f")));
  EXPECT_FALSE(Add(Op(OpKind::kSyncDirectory, "")));
  EXPECT_TRUE(Add(Op(OpKind::kSyncDirectory, "e")));
  EXPECT_THAT(Done(1), ElementsAre(2, 3));
}

TEST_F(FileOrderTest, ADirectoryThatGoesIsListedAndEmptiedInOrder) {
  EXPECT_TRUE(Add(Op(OpKind::kRename, "d")));
  EXPECT_FALSE(Add(Op(OpKind::kSyncDirectory, "")));
  EXPECT_FALSE(Add(Op(OpKind::kList, "d.renamed")));
  EXPECT_FALSE(Add(Op(OpKind::kRemove, "d.renamed/f")));
  EXPECT_FALSE(Add(Op(OpKind::kRemoveDirectory, "d.renamed")));
  EXPECT_FALSE(Add(Op(OpKind::kMakeDirectory, "d")));
  EXPECT_THAT(Done(1), ElementsAre(2, 3));
  EXPECT_THAT(Done(3), ElementsAre(4));
  EXPECT_THAT(Done(4), IsEmpty());  // the parent is being synced
  EXPECT_THAT(Done(2), ElementsAre(5));
  EXPECT_THAT(Done(5), ElementsAre(6));
}

// What must not be carried out at the same time, said anew: two operations on one file, unless both
// leave it as it is or they touch different parts of it.
bool Conflict(const FileOp& before, const FileOp& after) {
  const auto changes = [](const FileOp& op) {
    return op.kind != OpKind::kRead && op.kind != OpKind::kSync;
  };
  const auto names = [](const FileOp& op) { return std::set<std::string>{op.file, op.target}; };
  const auto entries = [](const FileOp& op) {
    return op.kind == OpKind::kCreate || op.kind == OpKind::kRemove || op.kind == OpKind::kRename;
  };
  if (entries(before) && entries(after)) return true;  // all are in one directory
  bool same = false;
  for (const std::string& name : names(before)) {
    same = same || (!name.empty() && names(after).contains(name));
  }
  if (!same || (!changes(before) && !changes(after))) return false;
  if (before.kind == OpKind::kWrite && after.kind == OpKind::kWrite) return false;  // one thread
  if (before.kind == OpKind::kSync && after.kind == OpKind::kWrite) return false;
  const bool ranges = (before.kind == OpKind::kRead && after.kind == OpKind::kWrite) ||
                      (before.kind == OpKind::kWrite && after.kind == OpKind::kRead);
  return !ranges ||
         (before.offset < after.offset + after.size && after.offset < before.offset + before.size);
}

TEST_F(FileOrderTest, NothingOvertakesWhatItConflictsWithAndAllOfItComesToAnEnd) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RandomStream random(seed, ServerId{1}, 0, 0);
    FileOrder order;
    std::map<Ticket, FileOp> unfinished;
    std::set<Ticket> running;
    const auto start = [&](Ticket ticket) {
      for (const auto& [before, op] : unfinished) {
        if (before >= ticket) break;
        ASSERT_FALSE(Conflict(op, unfinished.at(ticket)))
            << "seed " << seed << ": " << ticket << " beside " << before;
      }
      running.insert(ticket);
    };
    constexpr OpKind kKinds[] = {OpKind::kRead,   OpKind::kRead,   OpKind::kWrite,
                                 OpKind::kWrite,  OpKind::kSync,   OpKind::kTruncate,
                                 OpKind::kCreate, OpKind::kRemove, OpKind::kRename};
    int left = 200;
    while (left > 0 || !unfinished.empty()) {
      const bool add = left > 0 && (running.empty() || random.Below(2) == 0);
      if (add) {
        --left;
        const OpKind kind = kKinds[random.Below(std::size(kKinds))];
        const std::string file(1, static_cast<char>('a' + random.Below(3)));
        const uint64_t offset = random.Below(4) * 10;
        FileOp op = Op(kind, file, offset, 10);
        if (kind == OpKind::kRename)
          op.target = std::string(1, static_cast<char>('a' + random.Below(3)));
        Ticket ticket;
        const bool ready = order.Add(op, &ticket);
        unfinished[ticket] = op;
        if (ready) start(ticket);
      } else {
        ASSERT_FALSE(running.empty()) << "seed " << seed << ": nothing may be carried out";
        const Ticket ticket =
            *std::next(running.begin(), static_cast<ptrdiff_t>(random.Below(running.size())));
        running.erase(ticket);
        unfinished.erase(ticket);
        std::vector<Ticket> ready;
        order.Done(ticket, &ready);
        for (const Ticket next : ready) start(next);
      }
    }
    EXPECT_EQ(order.under_way(), size_t{0});
  }
}

}  // namespace
}  // namespace lockstep::shell
