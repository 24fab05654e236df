// What the leader decides while earlier transactions are in flight.
#include "core/coordination/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace lockstep::coordination {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr SessionId kA{1}, kB{2};
const std::vector<Acl> kOpen = {{.permissions = 31, .scheme = "world", .id = "anyone"}};

class PreparerTest : public ::testing::Test {
 protected:
  PreparerTest() {
    for (SessionId session : {kA, kB}) {
      preparer.PrepareOther();
      in_flight.push_back({{.session = session},
                           CreateSessionTransaction{.timeout_ms = 1, .password = "password"}});
    }
    DeliverAll();
  }

  ErrorCode Prepare(OpCode op, RequestBody body, SessionId session = kA) {
    Request request{.op = op, .body = std::move(body)};
    TransactionBody transaction = preparer.Prepare(session, 0, request);
    in_flight.push_back({{.session = session}, transaction});
    const auto* error = std::get_if<ErrorTransaction>(&transaction);
    return error == nullptr ? ErrorCode::kOk : error->error;
  }
  ErrorCode Create(std::string_view path, int32_t flags = 0, SessionId session = kA) {
    return Prepare(OpCode::kCreate, CreateRequest{.path = path, .acl = kOpen, .flags = flags},
                   session);
  }
  ErrorCode Delete(std::string_view path, int32_t version = kAnyVersion) {
    return Prepare(OpCode::kDelete, DeleteRequest{path, version});
  }
  ErrorCode Set(std::string_view path, int32_t version = kAnyVersion) {
    return Prepare(OpCode::kSetData, SetDataRequest{path, {}, version});
  }
  std::vector<std::string> Close(SessionId session) {
    CloseSessionTransaction close = preparer.PrepareClose(session);
    in_flight.push_back({{.session = session}, close});
    return close.paths_to_delete;
  }
  std::string LastPath() { return std::get<CreateTransaction>(in_flight.back().body).path; }

  void Deliver() {
    DecodedTransaction& oldest = in_flight.front();
    tree.Apply({{1}, ++counter}, oldest.header, oldest.body);
    preparer.OnDelivered();
    in_flight.pop_front();
  }
  void DeliverAll() {
    while (!in_flight.empty()) Deliver();
  }

  Tree tree;
  Preparer preparer{&tree, Rules(), 1000};
  std::deque<DecodedTransaction> in_flight;
  uint32_t counter = 0;
};

TEST_F(PreparerTest, AChildOfANodeInFlightMayBeCreated) {
  EXPECT_EQ(Create("/a"), ErrorCode::kOk);
  EXPECT_EQ(Create("/a/b"), ErrorCode::kOk);
  EXPECT_EQ(Create("/a"), ErrorCode::kNodeExists);
  DeliverAll();

  EXPECT_NE(tree.Find("/a/b"), nullptr);
}

TEST_F(PreparerTest, AChildOfAnEphemeralInFlightIsRefused) {
  Create("/e", CreateRequest::kEphemeral);

  EXPECT_EQ(Create("/e/b"), ErrorCode::kNoChildrenForEphemerals);
}

TEST_F(PreparerTest, ANodeWhoseDeletionIsInFlightIsGone) {
  Create("/a");
  DeliverAll();
  EXPECT_EQ(Delete("/a"), ErrorCode::kOk);

  EXPECT_EQ(Delete("/a"), ErrorCode::kNoNode);
  EXPECT_EQ(Set("/a"), ErrorCode::kNoNode);
  EXPECT_EQ(Create("/a/b"), ErrorCode::kNoNode);
  EXPECT_EQ(Create("/a"), ErrorCode::kOk);
  DeliverAll();
  EXPECT_EQ(tree.Find("/a")->stat().version, 0);
}

TEST_F(PreparerTest, ChildrenInFlightCountForNotEmpty) {
  Create("/a");
  Create("/a/b");
  DeliverAll();
  EXPECT_EQ(Delete("/a"), ErrorCode::kNotEmpty);
  Delete("/a/b");
  EXPECT_EQ(Delete("/a"), ErrorCode::kOk);
  Create("/p");
  Create("/p/c");
  EXPECT_EQ(Delete("/p"), ErrorCode::kNotEmpty);
  DeliverAll();

  EXPECT_EQ(tree.Find("/a"), nullptr);
}

TEST_F(PreparerTest, VersionsInFlightCountForConditions) {
  Create("/a");
  EXPECT_EQ(Set("/a", 0), ErrorCode::kOk);
  EXPECT_EQ(Set("/a", 0), ErrorCode::kBadVersion);
  EXPECT_EQ(Set("/a", 1), ErrorCode::kOk);
  EXPECT_EQ(Delete("/a", 1), ErrorCode::kBadVersion);
  EXPECT_EQ(Delete("/a", 2), ErrorCode::kOk);
  DeliverAll();
}

TEST_F(PreparerTest, WhatIsInFlightIsForgottenInOrder) {
  Create("/a");
  Set("/a");
  Set("/a");
  Deliver();
  Deliver();
  // The last change is still in flight: the next one builds on it.
  EXPECT_EQ(Set("/a", 2), ErrorCode::kOk);
  DeliverAll();

  EXPECT_EQ(preparer.in_flight(), 0u);
  EXPECT_EQ(Set("/a", 3), ErrorCode::kOk);
}

TEST_F(PreparerTest, SequenceNumbersGoOnAcrossDelivery) {
  Create("/p");
  std::vector<std::string> paths;
  for (int i = 0; i < 4; ++i) {
    Create("/p/n", CreateRequest::kSequential);
    paths.push_back(LastPath());
    if (i == 1) DeliverAll();
    if (i == 2) Delete(paths[0]);
  }
  DeliverAll();

  EXPECT_THAT(paths,
              ElementsAre("/p/n0000000000", "/p/n0000000001", "/p/n0000000002", "/p/n0000000003"));
}

TEST_F(PreparerTest, ARefusedCreateUsesNoSequenceNumber) {
  Create("/p");
  Create("/p/n\x01", CreateRequest::kSequential);
  Create("/p/n", CreateRequest::kSequential);

  EXPECT_EQ(LastPath(), "/p/n0000000000");
}

TEST_F(PreparerTest, ClosingASessionDeletesItsEphemeralsDeliveredAndInFlight) {
  Create("/delivered", CreateRequest::kEphemeral);
  Create("/persistent");
  Create("/other", CreateRequest::kEphemeral, kB);
  DeliverAll();
  Create("/flying", CreateRequest::kEphemeral);
  Create("/flying-other", CreateRequest::kEphemeral, kB);

  EXPECT_THAT(Close(kA), ElementsAre("/delivered", "/flying"));
  DeliverAll();
  EXPECT_EQ(tree.ephemeral_count(), 2u);
}

TEST_F(PreparerTest, ClosingASessionLeavesOutWhatIsBeingDeleted) {
  Create("/a", CreateRequest::kEphemeral);
  Create("/b", CreateRequest::kEphemeral);
  DeliverAll();
  Delete("/a");
  Create("/c", CreateRequest::kEphemeral);
  Delete("/c");

  EXPECT_THAT(Close(kA), ElementsAre("/b"));
  DeliverAll();
  EXPECT_EQ(tree.ephemeral_count(), 0u);
}

TEST_F(PreparerTest, ClosingASessionLeavesANodeThatHasAnotherOwnerByThen) {
  Create("/a", CreateRequest::kEphemeral);
  DeliverAll();
  Delete("/a");
  Create("/a", CreateRequest::kEphemeral, kB);

  EXPECT_THAT(Close(kA), IsEmpty());
  EXPECT_THAT(Close(kB), ElementsAre("/a"));
  DeliverAll();
}

TEST_F(PreparerTest, AnEphemeralThatWasCreatedTwiceInFlightIsDeletedOnce) {
  Create("/a", CreateRequest::kEphemeral);
  Delete("/a");
  Create("/a", CreateRequest::kEphemeral);
  Deliver();

  EXPECT_THAT(Close(kA), ElementsAre("/a"));
  DeliverAll();
  EXPECT_EQ(tree.Find("/a"), nullptr);
}

TEST_F(PreparerTest, AParentIsEmptyOnceTheCloseOfItsEphemeralsOwnerIsInFlight) {
  Create("/p");
  Create("/p/a", CreateRequest::kEphemeral);
  Create("/p/b", CreateRequest::kEphemeral);
  Close(kA);

  EXPECT_EQ(Delete("/p"), ErrorCode::kOk);
  DeliverAll();
  EXPECT_EQ(tree.Find("/p"), nullptr);
}

TEST_F(PreparerTest, TellsHowMuchTheEphemeralsOfASessionGrow) {
  Create("/abc", CreateRequest::kEphemeral);
  EXPECT_THAT(preparer.last_ephemeral_bytes(), ElementsAre(Pair(kA, 4)));
  Create("/p");
  EXPECT_THAT(preparer.last_ephemeral_bytes(), IsEmpty());
  Prepare(OpCode::kDelete, DeleteRequest{"/abc", kAnyVersion}, kB);
  EXPECT_THAT(preparer.last_ephemeral_bytes(), ElementsAre(Pair(kA, -4)));
}

TEST_F(PreparerTest, OtherOpsAreUnimplemented) {
  EXPECT_EQ(Prepare(OpCode::kSetAcl, SetAclRequest{"/", kOpen, -1}), ErrorCode::kUnimplemented);
}

}  // namespace
}  // namespace lockstep::coordination
