// The broker role's part of the configuration file.
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shell/config.h"

namespace lockstep::shell {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

LoadedConfig Load(const std::string& text) {
  LoadedConfig loaded = ParseConfig("dataDir=/data\n" + text, "server.cfg");
  ChooseServer(std::nullopt, &loaded);
  return loaded;
}

std::vector<std::string> Texts(const std::vector<Remark>& remarks) {
  std::vector<std::string> texts;
  for (const Remark& remark : remarks) texts.push_back(remark.ToString());
  return texts;
}

TEST(BrokerConfig, AListenerMakesAServerABroker) {
  EXPECT_FALSE(ServerOptions(Load("clientPort=2181\n").config).broker.has_value());

  const LoadedConfig loaded = Load("clientPort=2181\nlisteners=PLAINTEXT://127.0.0.1:9092\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  const server::Options options = ServerOptions(loaded.config);
  ASSERT_TRUE(options.broker.has_value());
  EXPECT_EQ(options.broker->broker.broker.value, 1);  // the server's number
  EXPECT_EQ(options.broker->broker.advertised, (replication::Endpoint{"127.0.0.1", 9092}));
  // Its own coordinator.
  EXPECT_THAT(options.broker->coordination, ElementsAre(replication::Endpoint{"127.0.0.1", 2181}));
  EXPECT_THAT(options.voters, SizeIs(1));
  EXPECT_EQ(loaded.config.partitions_dir, "/data/partitions");
}

TEST(BrokerConfig, ABrokerAloneNamesItsCoordinationService) {
  const LoadedConfig loaded =
      Load("broker.id=7\nlisteners=PLAINTEXT://b7:9092\nzookeeper.connect=z1:2182,z2\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  const server::Options options = ServerOptions(loaded.config);
  EXPECT_THAT(options.voters, IsEmpty());
  EXPECT_EQ(options.broker->broker.broker.value, 7);
  EXPECT_THAT(options.broker->coordination,
              ElementsAre(replication::Endpoint{"z1", 2182}, replication::Endpoint{"z2", 2181}));
  EXPECT_EQ(options.broker->broker.coordination.servers, 2u);
}

TEST(BrokerConfig, ABrokerWithoutACoordinationServiceIsAnError) {
  EXPECT_THAT(Texts(Load("listeners=PLAINTEXT://b:9092\n").errors),
              ElementsAre(HasSubstr("zookeeper.connect is not set")));
}

TEST(BrokerConfig, OthersMustBeToldWhereItIs) {
  const LoadedConfig unnamed = Load("clientPort=2181\nlisteners=PLAINTEXT://:9092\n");
  EXPECT_THAT(Texts(unnamed.errors), IsEmpty());
  char name[256] = "";
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(unnamed.config.broker.broker.advertised, (replication::Endpoint{name, 9092}));
  EXPECT_THAT(Texts(unnamed.notices), ElementsAre(HasSubstr("this machine's name, ")));
  const LoadedConfig loaded = Load(
      "clientPort=2181\nlisteners=PLAINTEXT://0.0.0.0:9092\n"
      "advertised.listeners=PLAINTEXT://host.example:19092\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_EQ(loaded.config.broker_listener, (Endpoint{"", 9092}));
  EXPECT_EQ(loaded.config.broker.broker.advertised, (replication::Endpoint{"host.example", 19092}));
}

TEST(BrokerConfig, EveryKeyThatSetsSomethingSetsIt) {
  const LoadedConfig loaded = Load(
      "clientPort=2181\n"
      "broker.id=5\n"
      "broker.rack=r1\n"
      "listeners=127.0.0.1:9092\n"
      "log.dirs=/logs\n"
      "zookeeper.session.timeout.ms=4000\n"
      "num.partitions=3\n"
      "default.replication.factor=2\n"
      "min.insync.replicas=2\n"
      "auto.create.topics.enable=false\n"
      "unclean.leader.election.enable=true\n"
      "auto.leader.rebalance.enable=false\n"
      "leader.imbalance.check.interval.seconds=9\n"
      "replica.lag.time.max.ms=1000\n"
      "log.durability=flush\n"
      "log.segment.bytes=2097152\n"
      "log.retention.hours=2\n"
      "log.retention.bytes=1000\n"
      "message.max.bytes=2048\n"
      "offsets.topic.num.partitions=4\n"
      "offsets.topic.replication.factor=1\n"
      "group.initial.rebalance.delay.ms=0\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_THAT(Texts(loaded.notices), IsEmpty());
  const replication::BrokerOptions& broker = loaded.config.broker.broker;
  const kafka::FrontEndOptions& front_end = loaded.config.broker.front_end;
  EXPECT_EQ(broker.broker.value, 5);
  EXPECT_EQ(broker.rack, "r1");
  EXPECT_EQ(loaded.config.partitions_dir, "/logs");
  EXPECT_EQ(broker.coordination.session_timeout_ms, 4000);
  EXPECT_EQ(broker.default_partitions, 3u);
  EXPECT_EQ(broker.default_replication_factor, 2u);
  EXPECT_EQ(broker.min_insync_replicas, 2u);
  EXPECT_FALSE(front_end.auto_create_topics);
  EXPECT_TRUE(broker.unclean_leader_election);
  EXPECT_FALSE(broker.auto_leader_rebalance);
  EXPECT_EQ(broker.leader_rebalance_interval, Seconds(9));
  EXPECT_EQ(broker.keep_in_sync_time, Seconds(1));
  EXPECT_EQ(broker.log.durability, storage::Durability::kFlush);
  EXPECT_EQ(broker.log.segment_bytes, 2'097'152u);
  EXPECT_EQ(broker.retention_ms, 7'200'000);
  EXPECT_EQ(broker.retention_bytes, 1000);
  EXPECT_EQ(front_end.message_bytes_max, 2048u);
  EXPECT_EQ(front_end.groups.partitions, 4);
  EXPECT_EQ(front_end.groups.replication_factor, 1);
  EXPECT_EQ(front_end.groups.initial_rebalance_delay_ms, 0);
}

TEST(BrokerConfig, WhatIsNotOfferedIsAnErrorWithItsLine) {
  auto error = [](const std::string& line) {
    const LoadedConfig loaded =
        Load("clientPort=2181\nlisteners=PLAINTEXT://127.0.0.1:9092\n" + line);
    return loaded.errors.empty() ? std::string() : loaded.errors[0].ToString();
  };
  EXPECT_THAT(error("listeners=SSL://127.0.0.1:9093\n"), HasSubstr("server.cfg:4: listeners"));
  EXPECT_THAT(error("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2\n"), HasSubstr("one listener"));
  EXPECT_THAT(error("log.dirs=/a,/b\n"), HasSubstr("one directory"));
  EXPECT_THAT(error("log.cleanup.policy=compact\n"), HasSubstr("not yet"));
  EXPECT_THAT(error("log.durability=maybe\n"), HasSubstr("fsync"));
  EXPECT_THAT(error("zookeeper.connect=z:2181/kafka\n"), HasSubstr("/brokers"));
  EXPECT_THAT(error("min.insync.replica=2\n"), HasSubstr("did you mean min.insync.replicas"));
}

TEST(BrokerConfig, OneMistakeIsOneError) {
  auto errors = [](const std::string& text) { return Texts(Load(text).errors); };
  EXPECT_THAT(errors("listeners=PLAINTEXT://b:9092\nzookeeper.connect=z:2181/kafka\n"),
              ElementsAre(HasSubstr("a path behind the servers (/kafka)")));
  EXPECT_THAT(errors("clientPort=1\nlisteners=PLAINTEXT://:9092\nadvertised.listeners=b\n"),
              ElementsAre(HasSubstr("advertised.listeners: b: must be PLAINTEXT://host:port")));
  EXPECT_THAT(errors("clientPort=1\nlisteners=:9092\nadvertised.listeners=PLAINTEXT://:9092\n"),
              ElementsAre(HasSubstr("must name the host")));
  EXPECT_THAT(errors("listeners=SSL://b:9092\nzookeeper.connect=z:2181\n"),
              ElementsAre(HasSubstr("a listener is PLAINTEXT")));
}

TEST(BrokerConfig, FlagsAreKafkas) {
  EXPECT_TRUE(Load("auto.create.topics.enable=True\nclientPort=1\n")
                  .config.broker.front_end.auto_create_topics);
  EXPECT_FALSE(Load("auto.create.topics.enable=FALSE\nclientPort=1\n")
                   .config.broker.front_end.auto_create_topics);
  EXPECT_THAT(Texts(Load("auto.create.topics.enable=no\nclientPort=1\n").errors),
              ElementsAre(HasSubstr("must be true or false")));
}

TEST(BrokerConfig, ABrokerAloneIsToldWhatItNeedsBesideLogDirs) {
  const LoadedConfig loaded =
      ParseConfig("broker.id=0\nzookeeper.connect=localhost:2181\nlog.dirs=/tmp/kafka-logs\n",
                  "server.properties");
  EXPECT_THAT(Texts(loaded.errors),
              ElementsAre(HasSubstr("dataDir is not set: where the journal")));
}

TEST(BrokerConfig, WithoutListenersABrokerListensWhereKafkasDoes) {
  const LoadedConfig loaded = Load(
      "broker.id=0\nzookeeper.connect=localhost:2181\nlog.dirs=/tmp/kafka-logs\n"
      "advertised.listeners=PLAINTEXT://b0:9092\nnum.network.threads=3\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_EQ(loaded.config.broker_listener, (Endpoint{"", 9092}));
  EXPECT_EQ(loaded.config.broker.broker.broker.value, 0);
}

TEST(BrokerConfig, TheSummaryNamesTheRolesThatThereAre) {
  EXPECT_EQ(Load("clientPort=2181\n").config.Summary(),
            "server 1 of 1 with ZooKeeper's clients on *:2181, data in /data");
  EXPECT_EQ(Load("broker.id=7\nlisteners=PLAINTEXT://b7:9092\nzookeeper.connect=z1:2182,z2\n")
                .config.Summary(),
            "broker 7 with Kafka's clients on b7:9092 (told b7:9092), coordination at "
            "z1:2182,z2:2181, data in /data, partitions in /data/partitions");
  EXPECT_THAT(Load("clientPort=2181\nlisteners=PLAINTEXT://h:9092\n").config.Summary(),
              AllOf(HasSubstr("server 1 of 1 with"), HasSubstr("broker 1 with")));
}

// All keys of Kafka 4.1, and those of Kafka 3 that 4 has no more.
TEST(BrokerConfig, EveryKeyOfKafkaIsKnown) {
  for (const char* key : {
           "add.partitions.to.txn.retry.backoff.max.ms",
           "add.partitions.to.txn.retry.backoff.ms",
           "advertised.host.name",
           "advertised.listeners",
           "advertised.port",
           "alter.config.policy.class.name",
           "alter.log.dirs.replication.quota.window.num",
           "alter.log.dirs.replication.quota.window.size.seconds",
           "authorizer.class.name",
           "auto.create.topics.enable",
           "auto.leader.rebalance.enable",
           "background.threads",
           "broker.heartbeat.interval.ms",
           "broker.id",
           "broker.id.generation.enable",
           "broker.rack",
           "broker.session.timeout.ms",
           "client.quota.callback.class",
           "compression.gzip.level",
           "compression.lz4.level",
           "compression.type",
           "compression.zstd.level",
           "connection.failed.authentication.delay.ms",
           "connections.max.idle.ms",
           "connections.max.reauth.ms",
           "control.plane.listener.name",
           "controlled.shutdown.enable",
           "controlled.shutdown.max.retries",
           "controlled.shutdown.retry.backoff.ms",
           "controller.listener.names",
           "controller.performance.always.log.threshold.ms",
           "controller.performance.sample.period.ms",
           "controller.quorum.append.linger.ms",
           "controller.quorum.bootstrap.servers",
           "controller.quorum.election.backoff.max.ms",
           "controller.quorum.election.timeout.ms",
           "controller.quorum.fetch.timeout.ms",
           "controller.quorum.request.timeout.ms",
           "controller.quorum.retry.backoff.ms",
           "controller.quorum.voters",
           "controller.quota.window.num",
           "controller.quota.window.size.seconds",
           "controller.socket.timeout.ms",
           "create.topic.policy.class.name",
           "default.replication.factor",
           "delegation.token.expiry.check.interval.ms",
           "delegation.token.expiry.time.ms",
           "delegation.token.master.key",
           "delegation.token.max.lifetime.ms",
           "delegation.token.secret.key",
           "delete.records.purgatory.purge.interval.requests",
           "delete.topic.enable",
           "early.start.listeners",
           "fetch.max.bytes",
           "fetch.purgatory.purge.interval.requests",
           "group.consumer.assignors",
           "group.consumer.heartbeat.interval.ms",
           "group.consumer.max.heartbeat.interval.ms",
           "group.consumer.max.session.timeout.ms",
           "group.consumer.max.size",
           "group.consumer.migration.policy",
           "group.consumer.min.heartbeat.interval.ms",
           "group.consumer.min.session.timeout.ms",
           "group.consumer.regex.refresh.interval.ms",
           "group.consumer.session.timeout.ms",
           "group.coordinator.append.linger.ms",
           "group.coordinator.rebalance.protocols",
           "group.coordinator.threads",
           "group.initial.rebalance.delay.ms",
           "group.max.session.timeout.ms",
           "group.max.size",
           "group.min.session.timeout.ms",
           "group.share.assignors",
           "group.share.delivery.count.limit",
           "group.share.enable",
           "group.share.heartbeat.interval.ms",
           "group.share.max.heartbeat.interval.ms",
           "group.share.max.record.lock.duration.ms",
           "group.share.max.session.timeout.ms",
           "group.share.max.share.sessions",
           "group.share.max.size",
           "group.share.min.heartbeat.interval.ms",
           "group.share.min.record.lock.duration.ms",
           "group.share.min.session.timeout.ms",
           "group.share.partition.max.record.locks",
           "group.share.persister.class.name",
           "group.share.record.lock.duration.ms",
           "group.share.session.timeout.ms",
           "group.streams.heartbeat.interval.ms",
           "group.streams.max.heartbeat.interval.ms",
           "group.streams.max.session.timeout.ms",
           "group.streams.max.size",
           "group.streams.max.standby.replicas",
           "group.streams.min.heartbeat.interval.ms",
           "group.streams.min.session.timeout.ms",
           "group.streams.num.standby.replicas",
           "group.streams.session.timeout.ms",
           "host.name",
           "initial.broker.registration.timeout.ms",
           "inter.broker.listener.name",
           "inter.broker.protocol.version",
           "internal.metadata.delete.delay.millis",
           "internal.metadata.log.segment.bytes",
           "internal.metadata.max.batch.size.in.bytes",
           "internal.metadata.max.fetch.size.in.bytes",
           "kafka.metrics.polling.interval.secs",
           "kafka.metrics.reporters",
           "leader.imbalance.check.interval.seconds",
           "listener.security.protocol.map",
           "listeners",
           "log.cleaner.backoff.ms",
           "log.cleaner.dedupe.buffer.size",
           "log.cleaner.delete.retention.ms",
           "log.cleaner.enable",
           "log.cleaner.io.buffer.load.factor",
           "log.cleaner.io.buffer.size",
           "log.cleaner.io.max.bytes.per.second",
           "log.cleaner.max.compaction.lag.ms",
           "log.cleaner.min.cleanable.ratio",
           "log.cleaner.min.compaction.lag.ms",
           "log.cleaner.threads",
           "log.cleanup.policy",
           "log.dir",
           "log.dir.failure.timeout.ms",
           "log.dirs",
           "log.flush.interval.messages",
           "log.flush.interval.ms",
           "log.flush.offset.checkpoint.interval.ms",
           "log.flush.scheduler.interval.ms",
           "log.flush.start.offset.checkpoint.interval.ms",
           "log.index.interval.bytes",
           "log.index.size.max.bytes",
           "log.initial.task.delay.ms",
           "log.local.retention.bytes",
           "log.local.retention.ms",
           "log.message.downconversion.enable",
           "log.message.format.version",
           "log.message.timestamp.after.max.ms",
           "log.message.timestamp.before.max.ms",
           "log.message.timestamp.difference.max.ms",
           "log.message.timestamp.type",
           "log.preallocate",
           "log.retention.bytes",
           "log.retention.check.interval.ms",
           "log.retention.hours",
           "log.retention.minutes",
           "log.retention.ms",
           "log.roll.hours",
           "log.roll.jitter.hours",
           "log.roll.jitter.ms",
           "log.roll.ms",
           "log.segment.bytes",
           "log.segment.delete.delay.ms",
           "max.connection.creation.rate",
           "max.connections",
           "max.connections.per.ip",
           "max.connections.per.ip.overrides",
           "max.incremental.fetch.session.cache.slots",
           "max.request.partition.size.limit",
           "message.max.bytes",
           "metadata.log.dir",
           "metadata.log.max.record.bytes.between.snapshots",
           "metadata.log.max.snapshot.interval.ms",
           "metadata.log.segment.bytes",
           "metadata.log.segment.ms",
           "metadata.max.idle.interval.ms",
           "metadata.max.retention.bytes",
           "metadata.max.retention.ms",
           "metric.reporters",
           "metrics.num.samples",
           "metrics.recording.level",
           "metrics.sample.window.ms",
           "min.insync.replicas",
           "node.id",
           "num.io.threads",
           "num.network.threads",
           "num.partitions",
           "num.recovery.threads.per.data.dir",
           "num.replica.alter.log.dirs.threads",
           "num.replica.fetchers",
           "offset.metadata.max.bytes",
           "offsets.commit.timeout.ms",
           "offsets.load.buffer.size",
           "offsets.retention.check.interval.ms",
           "offsets.retention.minutes",
           "offsets.topic.compression.codec",
           "offsets.topic.num.partitions",
           "offsets.topic.replication.factor",
           "offsets.topic.segment.bytes",
           "password.encoder.cipher.algorithm",
           "password.encoder.old.secret",
           "password.encoder.secret",
           "port",
           "principal.builder.class",
           "process.roles",
           "producer.id.expiration.check.interval.ms",
           "producer.id.expiration.ms",
           "producer.metrics.enable",
           "producer.purgatory.purge.interval.requests",
           "queued.max.request.bytes",
           "queued.max.requests",
           "quota.consumer.default",
           "quota.producer.default",
           "quota.window.num",
           "quota.window.size.seconds",
           "remote.fetch.max.wait.ms",
           "remote.list.offsets.request.timeout.ms",
           "remote.log.index.file.cache.total.size.bytes",
           "remote.log.manager.copier.thread.pool.size",
           "remote.log.manager.copy.max.bytes.per.second",
           "remote.log.manager.copy.quota.window.num",
           "remote.log.manager.copy.quota.window.size.seconds",
           "remote.log.manager.expiration.thread.pool.size",
           "remote.log.manager.fetch.max.bytes.per.second",
           "remote.log.manager.fetch.quota.window.num",
           "remote.log.manager.fetch.quota.window.size.seconds",
           "remote.log.manager.task.interval.ms",
           "remote.log.manager.task.retry.backoff.max.ms",
           "remote.log.manager.task.retry.backoff.ms",
           "remote.log.manager.task.retry.jitter",
           "remote.log.manager.thread.pool.size",
           "remote.log.metadata.custom.metadata.max.bytes",
           "remote.log.metadata.manager.class.name",
           "remote.log.metadata.manager.class.path",
           "remote.log.metadata.manager.impl.prefix",
           "remote.log.metadata.manager.listener.name",
           "remote.log.reader.max.pending.tasks",
           "remote.log.reader.threads",
           "remote.log.storage.manager.class.name",
           "remote.log.storage.manager.class.path",
           "remote.log.storage.manager.impl.prefix",
           "remote.log.storage.system.enable",
           "replica.fetch.backoff.ms",
           "replica.fetch.max.bytes",
           "replica.fetch.min.bytes",
           "replica.fetch.response.max.bytes",
           "replica.fetch.wait.max.ms",
           "replica.high.watermark.checkpoint.interval.ms",
           "replica.lag.time.max.ms",
           "replica.selector.class",
           "replica.socket.receive.buffer.bytes",
           "replica.socket.timeout.ms",
           "replication.quota.window.num",
           "replication.quota.window.size.seconds",
           "request.timeout.ms",
           "reserved.broker.max.id",
           "sasl.client.callback.handler.class",
           "sasl.enabled.mechanisms",
           "sasl.jaas.config",
           "sasl.kerberos.kinit.cmd",
           "sasl.kerberos.min.time.before.relogin",
           "sasl.kerberos.principal.to.local.rules",
           "sasl.kerberos.service.name",
           "sasl.kerberos.ticket.renew.jitter",
           "sasl.kerberos.ticket.renew.window.factor",
           "sasl.login.callback.handler.class",
           "sasl.login.class",
           "sasl.login.connect.timeout.ms",
           "sasl.login.read.timeout.ms",
           "sasl.login.refresh.buffer.seconds",
           "sasl.login.refresh.min.period.seconds",
           "sasl.login.refresh.window.factor",
           "sasl.login.refresh.window.jitter",
           "sasl.login.retry.backoff.max.ms",
           "sasl.login.retry.backoff.ms",
           "sasl.mechanism.controller.protocol",
           "sasl.mechanism.inter.broker.protocol",
           "sasl.oauthbearer.assertion.algorithm",
           "sasl.oauthbearer.assertion.claim.aud",
           "sasl.oauthbearer.assertion.claim.exp.seconds",
           "sasl.oauthbearer.assertion.claim.iss",
           "sasl.oauthbearer.assertion.claim.jti.include",
           "sasl.oauthbearer.assertion.claim.nbf.seconds",
           "sasl.oauthbearer.assertion.claim.sub",
           "sasl.oauthbearer.assertion.file",
           "sasl.oauthbearer.assertion.private.key.file",
           "sasl.oauthbearer.assertion.private.key.passphrase",
           "sasl.oauthbearer.assertion.template.file",
           "sasl.oauthbearer.client.credentials.client.id",
           "sasl.oauthbearer.client.credentials.client.secret",
           "sasl.oauthbearer.clock.skew.seconds",
           "sasl.oauthbearer.expected.audience",
           "sasl.oauthbearer.expected.issuer",
           "sasl.oauthbearer.jwks.endpoint.refresh.ms",
           "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
           "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
           "sasl.oauthbearer.jwks.endpoint.url",
           "sasl.oauthbearer.jwt.retriever.class",
           "sasl.oauthbearer.jwt.validator.class",
           "sasl.oauthbearer.scope",
           "sasl.oauthbearer.scope.claim.name",
           "sasl.oauthbearer.sub.claim.name",
           "sasl.oauthbearer.token.endpoint.url",
           "sasl.server.callback.handler.class",
           "sasl.server.max.receive.size",
           "security.inter.broker.protocol",
           "security.providers",
           "server.max.startup.time.ms",
           "share.coordinator.append.linger.ms",
           "share.coordinator.cold.partition.snapshot.interval.ms",
           "share.coordinator.load.buffer.size",
           "share.coordinator.snapshot.update.records.per.snapshot",
           "share.coordinator.state.topic.compression.codec",
           "share.coordinator.state.topic.min.isr",
           "share.coordinator.state.topic.num.partitions",
           "share.coordinator.state.topic.prune.interval.ms",
           "share.coordinator.state.topic.replication.factor",
           "share.coordinator.state.topic.segment.bytes",
           "share.coordinator.threads",
           "share.coordinator.write.timeout.ms",
           "share.fetch.purgatory.purge.interval.requests",
           "socket.connection.setup.timeout.max.ms",
           "socket.connection.setup.timeout.ms",
           "socket.listen.backlog.size",
           "socket.receive.buffer.bytes",
           "socket.request.max.bytes",
           "socket.send.buffer.bytes",
           "ssl.allow.dn.changes",
           "ssl.allow.san.changes",
           "ssl.cipher.suites",
           "ssl.client.auth",
           "ssl.enabled.protocols",
           "ssl.endpoint.identification.algorithm",
           "ssl.engine.factory.class",
           "ssl.key.password",
           "ssl.keymanager.algorithm",
           "ssl.keystore.certificate.chain",
           "ssl.keystore.key",
           "ssl.keystore.location",
           "ssl.keystore.password",
           "ssl.keystore.type",
           "ssl.principal.mapping.rules",
           "ssl.protocol",
           "ssl.provider",
           "ssl.secure.random.implementation",
           "ssl.trustmanager.algorithm",
           "ssl.truststore.certificates",
           "ssl.truststore.location",
           "ssl.truststore.password",
           "ssl.truststore.type",
           "telemetry.max.bytes",
           "transaction.abort.timed.out.transaction.cleanup.interval.ms",
           "transaction.max.timeout.ms",
           "transaction.partition.verification.enable",
           "transaction.remove.expired.transaction.cleanup.interval.ms",
           "transaction.state.log.load.buffer.size",
           "transaction.state.log.min.isr",
           "transaction.state.log.num.partitions",
           "transaction.state.log.replication.factor",
           "transaction.state.log.segment.bytes",
           "transaction.two.phase.commit.enable",
           "transactional.id.expiration.ms",
           "unclean.leader.election.enable",
           "unclean.leader.election.interval.ms",
           "unstable.api.versions.enable",
           "unstable.feature.versions.enable",
           "zookeeper.clientCnxnSocket",
           "zookeeper.connection.timeout.ms",
           "zookeeper.max.in.flight.requests",
           "zookeeper.metadata.migration.enable",
           "zookeeper.set.acl",
           "zookeeper.ssl.client.enable",
           "zookeeper.sync.time.ms",
       }) {
    for (const Remark& error : Load(std::string("clientPort=1\n") + key + "=1\n").errors) {
      EXPECT_THAT(error.ToString(), Not(HasSubstr("unknown key")));
    }
  }
}

TEST(BrokerConfig, KeysThatMeanSomethingElseHereSayWhat) {
  const LoadedConfig loaded = Load(
      "clientPort=2181\nlisteners=PLAINTEXT://127.0.0.1:9092\nprocess.roles=broker\n"
      "log.flush.interval.messages=1\n");
  EXPECT_THAT(Texts(loaded.errors), IsEmpty());
  EXPECT_THAT(Texts(loaded.notices),
              ElementsAre(HasSubstr("process.roles has no effect"),
                          HasSubstr("log.flush.interval.messages has no effect")));
}

}  // namespace
}  // namespace lockstep::shell
