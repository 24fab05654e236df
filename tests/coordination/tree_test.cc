#include "core/coordination/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/coordination/digest.h"

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SessionId kSession{0x100000000000001};
const std::vector<Acl> kOpen = {{.permissions = 31, .scheme = "world", .id = "anyone"}};

// A tree and the zxid and wall clock of its next transaction.
class TreeTest : public ::testing::Test {
 protected:
  Applied Apply(const TransactionBody& body, SessionId session = kSession) {
    ++zxid_.counter;
    time_ms_ += 10;
    return tree_.Apply(zxid_, {.session = session, .time_ms = time_ms_}, body);
  }
  Applied Create(const std::string& path, bool ephemeral = false, const std::string& data = "d") {
    const size_t slash = path.rfind('/');
    const Znode* parent = tree_.Find(slash == 0 ? "/" : path.substr(0, slash));
    return Apply(CreateTransaction{.path = path,
                                   .data = Bytes::Copy(data),
                                   .acl = kOpen,
                                   .ephemeral = ephemeral,
                                   .parent_cversion = parent->stat().cversion + 1});
  }
  Stat StatOf(std::string_view path) { return Tree::StatOf(*tree_.Find(path)); }

  Tree tree_;
  Zxid zxid_{{1}, 0};
  int64_t time_ms_ = 1000;
};

TEST_F(TreeTest, BeginsAsZooKeeperDoes) {
  EXPECT_EQ(tree_.node_count(), 4u);
  EXPECT_THAT(tree_.Find("/")->ChildNames(), ElementsAre("zookeeper"));
  EXPECT_THAT(tree_.Find("/zookeeper")->ChildNames(), ElementsAre("config", "quota"));
  // What `stat /` says on a fresh ZooKeeper: the initial nodes were not counted as creations.
  EXPECT_EQ(StatOf("/").cversion, -1);
  EXPECT_EQ(StatOf("/").num_children, 1);
  EXPECT_EQ(StatOf("/zookeeper").cversion, -2);
  EXPECT_EQ(StatOf("/zookeeper/config").aversion, -1);
  EXPECT_EQ(tree_.Find("/zookeeper/config")->acl()[0].permissions, 1);
}

TEST_F(TreeTest, CreateStampsTheNodeAndItsParent) {
  Applied applied = Create("/a", false, "hello");

  const Stat stat = StatOf("/a");
  EXPECT_EQ(applied.result.path, "/a");
  EXPECT_EQ(applied.result.stat, stat);
  EXPECT_EQ(stat.czxid, zxid_);
  EXPECT_EQ(stat.mzxid, zxid_);
  EXPECT_EQ(stat.pzxid, zxid_);
  EXPECT_EQ(stat.ctime_ms, 1010);
  EXPECT_EQ(stat.mtime_ms, 1010);
  EXPECT_EQ(stat.version, 0);
  EXPECT_EQ(stat.cversion, 0);
  EXPECT_EQ(stat.data_length, 5);
  EXPECT_EQ(tree_.Find("/a")->data().view(), "hello");
  EXPECT_EQ(StatOf("/").pzxid, zxid_);
  EXPECT_EQ(StatOf("/").cversion, 0);
  EXPECT_EQ(StatOf("/").num_children, 2);
  ASSERT_EQ(applied.changes.size(), 1u);
  EXPECT_EQ(applied.changes[0].kind, Applied::Change::Kind::kCreated);
  EXPECT_EQ(applied.changes[0].path, "/a");
}

TEST_F(TreeTest, ClientsSeeCreationsAndDeletionsInCversionButSequenceNumbersCountCreations) {
  Create("/a");
  Create("/a/x");
  Create("/a/y");
  Apply(DeleteTransaction{"/a/x"});

  EXPECT_EQ(StatOf("/a").cversion, 3);
  EXPECT_EQ(tree_.Find("/a")->stat().cversion, 2);
  EXPECT_EQ(StatOf("/a").pzxid, zxid_);
  EXPECT_EQ(StatOf("/a").num_children, 1);
}

TEST_F(TreeTest, SetDataMovesVersionAndMzxidAndNothingOfTheParent) {
  Create("/a");
  const Stat parent = StatOf("/");
  Applied applied =
      Apply(SetDataTransaction{.path = "/a", .data = Bytes::Copy("new"), .version = 1});

  EXPECT_EQ(applied.result.stat, StatOf("/a"));
  EXPECT_EQ(applied.result.stat.version, 1);
  EXPECT_EQ(applied.result.stat.mzxid, zxid_);
  EXPECT_EQ(applied.result.stat.mtime_ms, time_ms_);
  EXPECT_EQ(applied.result.stat.czxid, (Zxid{{1}, 1}));
  EXPECT_EQ(applied.result.stat.data_length, 3);
  EXPECT_EQ(StatOf("/"), parent);
}

// What Apache ZooKeeper 3.8.0 showed a kazoo client for the same requests, written down from it.
TEST_F(TreeTest, StatsAreThoseOfApacheZooKeeper) {
  auto numbers = [this](std::string_view path) {
    const Stat stat = StatOf(path);
    return std::vector<int64_t>{stat.version,      stat.cversion,      stat.num_children,
                                stat.data_length,  stat.czxid.counter, stat.mzxid.counter,
                                stat.pzxid.counter};
  };
  auto close = [this](SessionId session) {
    const auto& paths = tree_.FindSession(session)->ephemerals;
    Apply(CloseSessionTransaction{{paths.begin(), paths.end()}}, session);
  };
  zxid_.epoch.value = 0;  // a standalone server, as the recorded one

  Apply(CreateSessionTransaction{.timeout_ms = 20000}, SessionId{1});
  Create("/a", false, "x");
  EXPECT_THAT(numbers("/a"), ElementsAre(0, 0, 0, 1, 2, 2, 2));
  EXPECT_THAT(numbers("/"), ElementsAre(0, 0, 2, 0, 0, 0, 2));
  Create("/a/s-0000000000", false, "");
  Create("/a/s-0000000001", false, "");
  EXPECT_THAT(numbers("/a"), ElementsAre(0, 2, 2, 1, 2, 2, 4));
  Apply(DeleteTransaction{"/a/s-0000000000"});
  EXPECT_THAT(numbers("/a"), ElementsAre(0, 3, 1, 1, 2, 2, 5));
  EXPECT_EQ(tree_.Find("/a")->stat().cversion, 2);  // it named the next one s-0000000002
  Create("/a/s-0000000002", false, "");
  EXPECT_THAT(numbers("/a"), ElementsAre(0, 4, 2, 1, 2, 2, 6));
  Apply(SetDataTransaction{.path = "/a", .data = Bytes::Copy("yy"), .version = 1});
  EXPECT_THAT(numbers("/a"), ElementsAre(1, 4, 2, 2, 2, 7, 6));
  Apply(CreateSessionTransaction{.timeout_ms = 20000});
  Create("/a/e1", true, "");
  Create("/a/e2", true, "");
  EXPECT_THAT(numbers("/a"), ElementsAre(1, 6, 4, 2, 2, 7, 10));
  close(kSession);
  EXPECT_THAT(numbers("/a"), ElementsAre(1, 8, 2, 2, 2, 7, 11));
}

TEST_F(TreeTest, NullDataIsNotEmptyData) {
  Create("/a", false, "");
  const uint64_t empty = tree_.digest();
  EXPECT_FALSE(tree_.Find("/a")->null_data());

  Apply(SetDataTransaction{.path = "/a", .null_data = true, .version = 1});
  EXPECT_TRUE(tree_.Find("/a")->null_data());
  EXPECT_EQ(StatOf("/a").data_length, 0);
  EXPECT_NE(tree_.digest(), empty);
}

TEST_F(TreeTest, DoesNotKeepTheBufferThatAPayloadCameIn) {
  const Bytes frame = Bytes::Copy("header and payload");
  Apply(
      CreateTransaction{.path = "/a", .data = frame.Slice(11), .acl = kOpen, .parent_cversion = 1});

  EXPECT_EQ(tree_.Find("/a")->data().view(), "payload");
  EXPECT_NE(tree_.Find("/a")->data().data(), frame.data() + 11);
}

TEST_F(TreeTest, ClosingASessionDeletesItsEphemerals) {
  Create("/a");
  Apply(CreateSessionTransaction{.timeout_ms = 5000, .password = std::string(16, 'p')});
  Create("/a/1", true);
  Create("/a/2", true);
  EXPECT_EQ(StatOf("/a/1").ephemeral_owner, kSession);
  EXPECT_THAT(tree_.FindSession(kSession)->ephemerals, ElementsAre("/a/1", "/a/2"));
  EXPECT_EQ(tree_.ephemeral_count(), 2u);

  Applied applied = Apply(CloseSessionTransaction{{"/a/2", "/a/1"}});

  EXPECT_EQ(tree_.FindSession(kSession), nullptr);
  EXPECT_THAT(tree_.sessions(), IsEmpty());
  EXPECT_EQ(tree_.ephemeral_count(), 0u);
  EXPECT_THAT(tree_.Find("/a")->ChildNames(), IsEmpty());
  EXPECT_EQ(StatOf("/a").pzxid, zxid_);
  EXPECT_EQ(StatOf("/a").cversion, 4);
  ASSERT_EQ(applied.changes.size(), 2u);
  EXPECT_EQ(applied.changes[0].path, "/a/2");
  EXPECT_EQ(applied.changes[1].path, "/a/1");
}

TEST_F(TreeTest, AnErrorChangesNothingButTheZxid) {
  const uint64_t digest = tree_.digest();
  Applied applied = Apply(ErrorTransaction{ErrorCode::kNoNode});

  EXPECT_EQ(applied.error, ErrorCode::kNoNode);
  EXPECT_THAT(applied.changes, IsEmpty());
  EXPECT_EQ(tree_.last_zxid(), zxid_);
  EXPECT_EQ(tree_.digest(), digest);
}

TEST_F(TreeTest, ChildrenAreOrderedByName) {
  for (const char* path : {"/b", "/a", "/a-b", "/a/z", "/c"}) Create(path);

  EXPECT_THAT(tree_.Find("/")->ChildNames(), ElementsAre("a", "a-b", "b", "c", "zookeeper"));
  EXPECT_EQ(tree_.Find("/")->child_count(), 5u);
  EXPECT_THAT(tree_.Find("/a")->ChildNames(), ElementsAre("z"));
  EXPECT_EQ(tree_.Find("/a/y"), nullptr);
}

TEST_F(TreeTest, VersionsWrapAround) {
  Create("/a");
  Stat stat;
  for (int32_t version : {1, 2, 3}) {
    stat = Apply(SetDataTransaction{.path = "/a", .version = version}).result.stat;
  }
  EXPECT_EQ(stat.version, 3);
  EXPECT_DEATH(Apply(SetDataTransaction{.path = "/a", .version = 5}), "check failed");
}

TEST_F(TreeTest, ATransactionThatDoesNotFitStopsTheServer) {
  Create("/a");
  Apply(CreateSessionTransaction{.timeout_ms = 5000, .password = std::string(16, 'p')});
  Create("/e", true);
  auto create = [](const std::string& path, int32_t parent_cversion) {
    return CreateTransaction{.path = path, .acl = kOpen, .parent_cversion = parent_cversion};
  };

  EXPECT_DEATH(Apply(create("/a", 3)), "check failed") << "exists";
  EXPECT_DEATH(Apply(create("/b", 7)), "check failed") << "cversion of the parent";
  EXPECT_DEATH(Apply(create("/no/b", 1)), "check failed") << "no parent";
  EXPECT_DEATH(Apply(create("/e/b", 1)), "check failed") << "child of an ephemeral node";
  EXPECT_DEATH(Apply(DeleteTransaction{"/b"}), "check failed") << "nothing to delete";
  EXPECT_DEATH(Apply(DeleteTransaction{"/zookeeper"}), "check failed") << "has children";
  EXPECT_DEATH(Apply(CloseSessionTransaction{}), "check failed") << "an ephemeral would be left";
  EXPECT_DEATH(Apply(CloseSessionTransaction{{"/e"}}, SessionId{7}), "check failed")
      << "not its own";
  EXPECT_DEATH(Apply(CreateSessionTransaction{}), "check failed") << "session exists";
  EXPECT_DEATH(tree_.Apply(zxid_, {}, ErrorTransaction{}), "check failed") << "same zxid again";
}

TEST_F(TreeTest, ApproximateDataSizeFollowsPathsAndData) {
  const uint64_t before = tree_.approximate_data_size();
  Create("/ab", false, "12345");
  EXPECT_EQ(tree_.approximate_data_size(), before + 3 + 5);
  Apply(SetDataTransaction{.path = "/ab", .data = Bytes::Copy("1"), .version = 1});
  EXPECT_EQ(tree_.approximate_data_size(), before + 3 + 1);
  Apply(DeleteTransaction{"/ab"});
  EXPECT_EQ(tree_.approximate_data_size(), before);
}

TEST(StateHash, IsTheSameEverywhere) {
  // Part of the format of snapshots. If this fails, the format version must change.
  StateHash hash(1);
  hash.Text("/a/node");
  hash.Text("");
  hash.Text("longer than one word, with a tail");
  hash.Number(int32_t{-1});
  hash.Number(uint64_t{1} << 63);
  EXPECT_EQ(hash.value(), 3297289943395397207u);
}

TEST(StateHash, TellsWhereTextsEnd) {
  StateHash a(1);
  a.Text("ab");
  a.Text("c");
  StateHash b(1);
  b.Text("a");
  b.Text("bc");
  EXPECT_NE(a.value(), b.value());
}

}  // namespace
}  // namespace lockstep::coordination
