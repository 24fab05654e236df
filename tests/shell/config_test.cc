#include "shell/config.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shell/member_line.h"

namespace lockstep::shell {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

LoadedConfig Parse(const std::string& text) { return ParseConfig(text, "zoo.cfg"); }
// With what every configuration needs, in lines 1 and 2.
LoadedConfig ParseMore(const std::string& text) {
  return Parse("dataDir=/data\nclientPort=2181\n" + text);
}

std::vector<std::string> Texts(const std::vector<Remark>& remarks) {
  std::vector<std::string> texts;
  for (const Remark& remark : remarks) texts.push_back(remark.ToString());
  return texts;
}

TEST(Config, SmallestOneHasZooKeepersDefaults) {
  LoadedConfig loaded = ParseMore("");
  ChooseServer(std::nullopt, &loaded);

  const Config& config = loaded.config;
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_THAT(Texts(loaded.notices), IsEmpty());
  EXPECT_EQ(config.server, ServerId{1});
  EXPECT_EQ(config.data_dir, "/data");
  EXPECT_EQ(config.log_dir, "/data");
  EXPECT_EQ(config.client, (Endpoint{"", 2181}));
  EXPECT_EQ(config.tick, Seconds(3));
  EXPECT_EQ(config.session_timeout_ms_min, 6'000);
  EXPECT_EQ(config.session_timeout_ms_max, 60'000);
  EXPECT_EQ(config.connections_per_address_max, 60u);
  EXPECT_THAT(config.four_letter_words, ElementsAre("srvr"));
  EXPECT_THAT(config.voters(), ElementsAre(ServerId{1}));
}

TEST(Config, EveryKeyThatSetsSomethingSetsIt) {
  LoadedConfig loaded = Parse(
      "tickTime=2000\n"
      "initLimit=7\n"
      "syncLimit=3\n"
      "dataDir=/data\n"
      "dataLogDir=/journal\n"
      "clientPort=2181\n"
      "clientPortAddress=127.0.0.1\n"
      "clientPortListenBacklog=511\n"
      "maxClientCnxns=0\n"
      "maxCnxns=500\n"
      "minSessionTimeout=1000\n"
      "maxSessionTimeout=90000\n"
      "snapCount=5000\n"
      "cnxTimeout=1500\n"
      "jute.maxbuffer=0x200000\n"
      "quorumListenOnAllIPs=true\n"
      "4lw.commands.whitelist=stat, ruok,mntr\n"
      "server.3=c:2888:3888\n"
      "server.1=a:2888:3888\n"
      "server.2=b:2888:3888\n");
  ChooseServer("2\n", &loaded);

  const Config& config = loaded.config;
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_THAT(Texts(loaded.notices), IsEmpty());
  EXPECT_EQ(config.server, ServerId{2});
  EXPECT_EQ(config.tick, Seconds(2));
  EXPECT_EQ(config.init_limit, 7u);
  EXPECT_EQ(config.sync_limit, 3u);
  EXPECT_EQ(config.data_dir, "/data");
  EXPECT_EQ(config.log_dir, "/journal");
  EXPECT_EQ(config.client, (Endpoint{"127.0.0.1", 2181}));
  EXPECT_EQ(config.client_listen_backlog, 511u);
  EXPECT_EQ(config.connections_per_address_max, 0u);
  EXPECT_EQ(config.connections_max, 500u);
  EXPECT_EQ(config.session_timeout_ms_min, 1'000);
  EXPECT_EQ(config.session_timeout_ms_max, 90'000);
  EXPECT_EQ(config.snap_count, 5'000u);
  EXPECT_EQ(config.connect_timeout, Milliseconds(1'500));
  EXPECT_EQ(config.client_frame_bytes_max, 2u << 20);
  EXPECT_TRUE(config.peers_on_all_interfaces);
  EXPECT_THAT(config.four_letter_words, ElementsAre("stat", "ruok", "mntr"));
  EXPECT_THAT(config.voters(), ElementsAre(ServerId{1}, ServerId{2}, ServerId{3}));
  EXPECT_EQ(config.member({3})->election, (Endpoint{"c", 3888}));
}

TEST(Config, ServerOptionsCarryIt) {
  LoadedConfig loaded = ParseMore(
      "tickTime=500\nmaxCnxns=9\njute.maxbuffer=2048\n"
      "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n");
  ChooseServer("3", &loaded);
  const server::Options options = ServerOptions(loaded.config);

  EXPECT_EQ(options.server, ServerId{3});
  EXPECT_THAT(options.voters, SizeIs(3));
  EXPECT_EQ(options.tick, Milliseconds(500));
  EXPECT_EQ(options.coordination.session_timeout_ms_min, 1'000);
  EXPECT_EQ(options.coordination.session_timeout_ms_max, 10'000);
  EXPECT_EQ(options.coordination.connections_max, 9u);
  EXPECT_EQ(options.coordination.frame_bytes_max, 2048u);
  EXPECT_THAT(options.conf, AllOf(HasSubstr("serverId=3\n"), HasSubstr("tickTime=500\n"),
                                  HasSubstr("server.2=b:1:2:participant\n")));
}

TEST(Config, ErrorsAreCollectedWithTheirLines) {
  const LoadedConfig loaded = Parse("tickTime=soon\n\nsnapCount=1\nmaxClientCnxns=-3\n");

  EXPECT_THAT(Texts(loaded.errors),
              ElementsAre("zoo.cfg:1: tickTime=soon: must be a number from 10 to 86400000 "
                          "(milliseconds)",
                          "zoo.cfg:3: snapCount=1: must be a number from 2 to 1000000000 "
                          "(transactions)",
                          "zoo.cfg:4: maxClientCnxns=-3: must be a number from 0 to 1000000 "
                          "(connections)",
                          "zoo.cfg: dataDir is not set: where the data is kept"));
}

TEST(Config, NumberMustBeWholeAndNothingElse) {
  for (const char* text : {"", "1s", "1.5", "99999999999999999999", "0x", "--1"}) {
    EXPECT_THAT(ParseMore(std::string("initLimit=") + text).errors, SizeIs(1)) << text;
  }
}

TEST(Config, UnknownKeyIsAnErrorWithTheKeyThatWasProbablyMeant) {
  EXPECT_THAT(
      Texts(ParseMore("ticktime=1\nmaxClientConnxns=1\nzookeeper.snapCount=5\nfrob=1\n").errors),
      ElementsAre("zoo.cfg:3: unknown key ticktime: did you mean tickTime?",
                  "zoo.cfg:4: unknown key maxClientConnxns: did you mean maxClientCnxns?",
                  "zoo.cfg:5: unknown key zookeeper.snapCount: did you mean snapCount?",
                  "zoo.cfg:6: unknown key frob"));
}

TEST(Config, RepeatedKeyCountsOnceAndIsNoticed) {
  const LoadedConfig loaded = ParseMore("snapCount=10\nsnapCount=20\n");

  EXPECT_EQ(loaded.config.snap_count, 20u);
  EXPECT_THAT(Texts(loaded.notices),
              ElementsAre("zoo.cfg:4: snapCount was set on line 3 too: this line counts"));
}

TEST(Config, KeysOfZooKeeperThatDoNothingHereAreNoticed) {
  const char* keys[] = {"autopurge.purgeInterval=1",
                        "autopurge.snapRetainCount=3",
                        "preAllocSize=65536",
                        "standaloneEnabled=true",
                        "reconfigEnabled=false",
                        "admin.enableServer=false",
                        "admin.serverPort=8080",
                        "metricsProvider.httpPort=7000",
                        "globalOutstandingLimit=1000",
                        "leaderServes=yes",
                        "electionAlg=1",
                        "syncEnabled=true",
                        "jute.maxbuffer.extrasize=1",
                        "forceSync=no",
                        "ssl.keyStore.location=/x",
                        "secureClientPort=2281",
                        "authProvider.1=X",
                        "nioNumWorkerThreads=4",
                        "commitProcessor.numWorkerThreads=2",
                        "snapshot.trust.empty=true",
                        "fsync.warningthresholdms=1000",
                        "quorum.auth.learnerRequireSasl=true"};
  for (const char* key : keys) {
    const LoadedConfig loaded = ParseMore(key);
    EXPECT_THAT(Texts(loaded.errors), IsEmpty()) << key;
    EXPECT_THAT(Texts(loaded.notices), ElementsAre(HasSubstr("zoo.cfg:3: "))) << key;
  }
}

TEST(Config, WhoReliesOnProtectionThatIsNotThereIsWarned) {
  for (const char* key :
       {"ssl.keyStore.location=/x", "secureClientPort=2281", "portUnification=true",
        "authProvider.1=X", "enforce.auth.schemes=sasl", "quorum.auth.learnerRequireSasl=true",
        "skipACL=yes", "sasl.enabled.mechanisms=PLAIN", "security.inter.broker.protocol=SSL",
        "authorizer.class.name=A", "super.users=User:a", "allow.everyone.if.no.acl.found=false",
        "zookeeper.set.acl=true", "zookeeper.ssl.client.enable=true"}) {
    const LoadedConfig loaded = ParseMore(key);
    EXPECT_THAT(Texts(loaded.errors), IsEmpty()) << key;
    ASSERT_THAT(loaded.notices, SizeIs(1)) << key;
    EXPECT_TRUE(loaded.notices[0].warning) << key;
  }
  // What is so anyway.
  for (const char* key :
       {"skipACL=no", "security.inter.broker.protocol=PLAINTEXT", "zookeeper.set.acl=false"}) {
    EXPECT_THAT(Texts(ParseMore(key).notices), IsEmpty()) << key;
  }
  EXPECT_FALSE(ParseMore("admin.serverPort=8080").notices.at(0).warning);
}

TEST(Config, ForceSyncIsAlwaysOn) {
  EXPECT_THAT(Texts(ParseMore("forceSync=yes").notices), IsEmpty());
  EXPECT_THAT(Texts(ParseMore("forceSync=no").notices),
              ElementsAre("zoo.cfg:3: forceSync=no is ignored: nothing is acknowledged before it "
                          "is durable"));
}

TEST(Config, WhatWouldBreakAPromiseIsRefused) {
  for (const char* key : {"peerType=observer", "dynamicConfigFile=/x", "group.1=1:2", "weight.1=2",
                          "sslQuorum=true", "quorum.auth.enableSasl=true",
                          "enforce.auth.enabled=true", "sessionRequireClientSASLAuth=true"}) {
    EXPECT_THAT(ParseMore(key).errors, SizeIs(1)) << key;
  }
  for (const char* key :
       {"peerType=participant", "sslQuorum=false", "quorum.auth.enableSasl=false"}) {
    EXPECT_THAT(Texts(ParseMore(key).errors), IsEmpty()) << key;
  }
}

TEST(Config, SessionTimeoutsMustBeInOrder) {
  EXPECT_THAT(Texts(ParseMore("maxSessionTimeout=100\nminSessionTimeout=200\n").errors),
              ElementsAre("zoo.cfg:4: minSessionTimeout (200 ms) is above maxSessionTimeout "
                          "(100 ms)"));
  EXPECT_THAT(Texts(ParseMore("minSessionTimeout=-1\nmaxSessionTimeout=-1\n").errors), IsEmpty());
}

TEST(Config, TwoServersCannotShareAPort) {
  EXPECT_THAT(Texts(ParseMore("server.1=h:1:2\nserver.2=h:3:2\nserver.3=h:5:6\n").errors),
              ElementsAre("zoo.cfg:4: server.2: h:2 is taken by server.1"));
}

TEST(Config, EvenNumberOfServersIsNoticed) {
  EXPECT_THAT(Texts(ParseMore("server.1=a:1:2\nserver.2=b:1:2\n").notices),
              ElementsAre("zoo.cfg: 2 servers survive no more failures than 1: use an odd number"));
}

TEST(Config, FourLetterWordsMustBeWords) {
  EXPECT_THAT(ParseMore("4lw.commands.whitelist=*").config.four_letter_words, ElementsAre("*"));
  EXPECT_THAT(ParseMore("4lw.commands.whitelist=").config.four_letter_words, IsEmpty());
  EXPECT_THAT(ParseMore("4lw.commands.whitelist=stat,status").errors, SizeIs(1));
}

// ---- server.N ----------------------------------------------------------------------------------

TEST(MemberLine, HasAHostTwoPortsAndMore) {
  const absl::StatusOr<Member> plain = ParseMemberLine("server.1", "a.example:2888:3888");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->server, ServerId{1});
  EXPECT_EQ(plain->learner, (Endpoint{"a.example", 2888}));
  EXPECT_EQ(plain->election, (Endpoint{"a.example", 3888}));
  EXPECT_EQ(plain->client, std::nullopt);

  const absl::StatusOr<Member> full =
      ParseMemberLine("server.255", "[fe80::1]:2888:3888:participant;[::1]:2181");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->server, ServerId{255});
  EXPECT_EQ(full->election, (Endpoint{"fe80::1", 3888}));
  EXPECT_EQ(full->client, (Endpoint{"::1", 2181}));

  const absl::StatusOr<Member> port_only = ParseMemberLine("server.2", "b:1:2;2181");
  ASSERT_TRUE(port_only.ok());
  EXPECT_EQ(port_only->client, (Endpoint{"", 2181}));
}

TEST(MemberLine, ObserverIsNotOfferedYet) {
  const absl::StatusOr<Member> member = ParseMemberLine("server.4", "h:1:2:observer");
  EXPECT_THAT(std::string(member.status().message()),
              HasSubstr("server.4: observers are not offered yet"));
}

TEST(MemberLine, MalformedOnesAreRefused) {
  for (const char* key : {"server.0", "server.256", "server.", "server.x", "server.1x"}) {
    EXPECT_FALSE(ParseMemberLine(key, "h:1:2").ok()) << key;
  }
  for (const char* value :
       {"", "h", "h:1", ":1:2", "h:0:2", "h:1:70000", "h:1:1", "h:1:2:voter", "h:1:2:participant:3",
        "h:1:2;", "h:1:2;a:b", "h:1:2;a:1:2", "h:1:2|g:1:2", "h:1x:2"}) {
    EXPECT_FALSE(ParseMemberLine("server.1", value).ok()) << value;
  }
}

TEST(Endpoint, IsHostAndPort) {
  EXPECT_EQ(*ParseEndpoint("h:1"), (Endpoint{"h", 1}));
  EXPECT_EQ(*ParseEndpoint("[::1]:2181"), (Endpoint{"::1", 2181}));
  EXPECT_EQ(ParseEndpoint("[::1]:2181")->ToString(), "[::1]:2181");
  for (const char* text : {"", "h", "h:", ":1", "h:0", "::1:2181"}) {
    EXPECT_FALSE(ParseEndpoint(text).ok()) << text;
  }
}

// ---- Which server this is ----------------------------------------------------------------------

constexpr char kThree[] = "server.1=a:1:2\nserver.2=b:1:2;2182\nserver.3=c:1:2\n";

TEST(ChooseServer, NeedsMyidInAnEnsemble) {
  LoadedConfig loaded = ParseMore(kThree);
  ChooseServer(std::nullopt, &loaded);
  EXPECT_THAT(Texts(loaded.errors), ElementsAre(HasSubstr("there is no file /data/myid")));
}

TEST(ChooseServer, MyidMustNameALine) {
  LoadedConfig loaded = ParseMore(kThree);
  ChooseServer("4", &loaded);
  EXPECT_THAT(Texts(loaded.errors), ElementsAre(HasSubstr("there is no line server.4")));
}

TEST(ChooseServer, MyidMustBeANumber) {
  for (const char* myid : {"", "one", "0", "256", "1 2"}) {
    LoadedConfig loaded = ParseMore(kThree);
    ChooseServer(myid, &loaded);
    EXPECT_THAT(Texts(loaded.errors), ElementsAre(HasSubstr("/data/myid:1: is not the number")))
        << myid;
  }
}

TEST(ChooseServer, StandAloneServerMayHaveAnId) {
  LoadedConfig loaded = ParseMore("");
  ChooseServer(" 7\n", &loaded);
  EXPECT_EQ(loaded.config.server, ServerId{7});
  EXPECT_THAT(loaded.config.voters(), ElementsAre(ServerId{7}));
}

TEST(ChooseServer, ClientPortComesFromEitherPlaceAndMustAgree) {
  LoadedConfig from_line = Parse(std::string("dataDir=/data\n") + kThree);
  ChooseServer("2", &from_line);
  EXPECT_THAT(Texts(from_line.errors), IsEmpty());
  EXPECT_EQ(from_line.config.client.port, 2182);

  LoadedConfig contradiction = ParseMore(kThree);
  ChooseServer("2", &contradiction);
  EXPECT_THAT(Texts(contradiction.errors),
              ElementsAre("zoo.cfg: clientPort is 2181, but the line server.2 says 2182"));

  LoadedConfig nowhere = Parse(std::string("dataDir=/data\n") + kThree);
  ChooseServer("1", &nowhere);
  EXPECT_THAT(Texts(nowhere.errors), ElementsAre(HasSubstr("clientPort is not set")));
}

TEST(ChooseServer, APortIsForOnePurpose) {
  const auto errors = [](const std::string& text) {
    LoadedConfig loaded = Parse("dataDir=/data\n" + text);
    ChooseServer("1", &loaded);
    return Texts(loaded.errors);
  };
  const std::string members = "server.1=a:2888:3888\nserver.2=b:2181:3888\nserver.3=c:2888:3888\n";
  EXPECT_THAT(errors(members + "clientPort=2181\n"), IsEmpty()) << "another server's";
  EXPECT_THAT(
      errors(members + "clientPort=2888\n"),
      ElementsAre("zoo.cfg: clientPort and the line server.1 both say port 2888: each needs "
                  "one of its own"));
  EXPECT_THAT(errors(members + "clientPort=3888\nclientPortAddress=a\n"), SizeIs(1));
  EXPECT_THAT(errors(members + "clientPort=3888\nclientPortAddress=d\n"), IsEmpty());
  EXPECT_THAT(errors(members + "clientPort=2181\nlisteners=PLAINTEXT://a:2181\n"),
              ElementsAre(HasSubstr("clientPort and listeners both say port 2181")));
}

TEST(ChooseServer, AClientPortThatIsNoneIsOneError) {
  for (const char* more : {"", "listeners=PLAINTEXT://a:9092\n"}) {
    LoadedConfig loaded = Parse(std::string("dataDir=/data\nclientPort=70000\n") + more);
    ChooseServer(std::nullopt, &loaded);
    EXPECT_THAT(
        Texts(loaded.errors),
        ElementsAre("zoo.cfg:2: clientPort=70000: must be a number from 1 to 65535 (port)"));
  }
}

TEST(LoadConfig, ReadsTheFileAndMyid) {
  const std::filesystem::path directory = testing::TempDir() + "/load_config_test";
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "myid") << "3\n";
  std::ofstream(directory / "zoo.cfg") << "dataDir=" << directory.string() << "\nclientPort=2181\n"
                                       << kThree;

  const LoadedConfig loaded = LoadConfig(directory / "zoo.cfg");

  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_EQ(loaded.config.server, ServerId{3});
  std::filesystem::remove_all(directory);
}

TEST(LoadConfig, SaysWhyTheFileCannotBeRead) {
  EXPECT_THAT(Texts(LoadConfig("/nowhere/zoo.cfg").errors),
              ElementsAre("/nowhere/zoo.cfg: cannot be read: No such file or directory"));
}

}  // namespace
}  // namespace lockstep::shell
