// lockstep: the operator's command line.
#include <algorithm>
#include <cstdio>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "shell/config.h"
#include "shell/four_letter_client.h"
#include "shell/member_line.h"
#include "shell/metadata_client.h"
#include "shell/table.h"
#include "shell/version.h"

namespace lockstep::shell {
namespace {

constexpr int kFine = 0;
constexpr int kNotFine = 1;  // a server does not answer, a configuration has an error
constexpr int kUsage = 2;

constexpr Duration kTimeout = Seconds(3);

// Nothing and a message on standard error if one of them is not host:port.
std::optional<std::vector<Endpoint>> ParseServers(const std::string& list) {
  std::vector<Endpoint> servers;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    absl::StatusOr<Endpoint> server =
        ParseEndpoint(std::string_view(list).substr(begin, end - begin));
    if (!server.ok()) {
      std::fprintf(stderr, "lockstep: %s\n", std::string(server.status().message()).c_str());
      return std::nullopt;
    }
    servers.push_back(*std::move(server));
    begin = end + 1;
  }
  return servers;
}

// The rest of the line of `answer` that begins with `label`, or `-`.
std::string Value(const std::string& answer, std::string_view label) {
  size_t begin = answer.starts_with(label) ? 0 : answer.find("\n" + std::string(label));
  if (begin == std::string::npos) return "-";
  if (begin != 0) ++begin;
  begin = std::min(answer.find_first_not_of(' ', begin + label.size()), answer.size());
  return answer.substr(begin, answer.find('\n', begin) - begin);
}

// Ports are easily confused, and who is asked in the wrong protocol only closes the connection.
constexpr Duration kOtherProtocolTimeout = Seconds(1);

// Asks `server`, of whom no coordinator's answer came, as a broker. Empty if it is none either.
std::string SaysIfBroker(const Endpoint& server) {
  if (!AskMetadata(server, std::string("-"), kOtherProtocolTimeout).ok()) return "";
  return ": Kafka's protocol is spoken there, so it is a port of `listeners`; this command asks a "
         "coordinator, at its clientPort";
}

// Asks `server`, of whom no broker's answer came, as a coordinator.
std::string SaysIfCoordinator(const Endpoint& server) {
  const auto answer = AskFourLetterWord(server, "srvr", kOtherProtocolTimeout);
  if (!answer.ok() || answer->empty()) return "";
  return ": ZooKeeper's protocol is spoken there, so it is a clientPort; this command asks a "
         "broker, at the port of its `listeners`";
}

// As AskFourLetterWord; without an answer, the error says also what else is there.
absl::StatusOr<std::string> AskCoordinator(const Endpoint& server, const std::string& word) {
  absl::StatusOr<std::string> answer = AskFourLetterWord(server, word, kTimeout);
  // A word that is known is answered by at least a sentence.
  if (answer.ok() && !answer->empty()) return answer;
  const std::string why = answer.ok() ? server.ToString() + " closes the connection"
                                      : std::string(answer.status().message());
  return absl::UnavailableError(why + SaysIfBroker(server));
}

int Status(const std::string& list) {
  const std::optional<std::vector<Endpoint>> servers = ParseServers(list);
  if (!servers) return kUsage;
  // All at once: one server that does not answer must not delay the word of the others.
  std::vector<std::future<absl::StatusOr<std::string>>> answers;
  for (const Endpoint& server : *servers) {
    answers.push_back(
        std::async(std::launch::async, [&server] { return AskCoordinator(server, "srvr"); }));
  }

  std::vector<std::vector<std::string>> rows = {
      {"SERVER", "ROLE", "ZXID", "NODES", "CONNECTIONS", "OUTSTANDING", "LATENCY MS MIN/AVG/MAX"}};
  std::vector<std::string> failures;
  for (size_t i = 0; i < answers.size(); ++i) {
    absl::StatusOr<std::string> answer = answers[i].get();
    const std::string name = (*servers)[i].ToString();
    if (!answer.ok()) {
      rows.push_back({name, "down", "-", "-", "-", "-", "-"});
      failures.push_back(std::string(answer.status().message()));
      continue;
    }
    // A server that is looking for a leader answers with a sentence instead.
    const std::string role = Value(*answer, "Mode:");
    if (role == "-") failures.push_back(name + " says: " + answer->substr(0, answer->find('\n')));
    rows.push_back({name, role == "-" ? "not serving" : role, Value(*answer, "Zxid:"),
                    Value(*answer, "Node count:"), Value(*answer, "Connections:"),
                    Value(*answer, "Outstanding:"), Value(*answer, "Latency min/avg/max:")});
  }

  std::fputs(FormatTable(rows).c_str(), stdout);
  for (const std::string& failure : failures)
    std::fprintf(stderr, "lockstep: %s\n", failure.c_str());
  return failures.empty() ? kFine : kNotFine;
}

int FourLetterWord(const std::string& word, const std::string& list) {
  const std::optional<std::vector<Endpoint>> servers = ParseServers(list);
  if (!servers) return kUsage;
  int status = kFine;
  for (const Endpoint& server : *servers) {
    absl::StatusOr<std::string> answer = AskCoordinator(server, word);
    if (!answer.ok()) {
      std::fprintf(stderr, "lockstep: %s\n", std::string(answer.status().message()).c_str());
      status = kNotFine;
      continue;
    }
    std::fwrite(answer->data(), 1, answer->size(), stdout);
    if (!answer->ends_with('\n')) std::fputc('\n', stdout);
  }
  return status;
}

std::string Join(const std::vector<int32_t>& brokers) {
  std::string text;
  for (int32_t broker : brokers) text += (text.empty() ? "" : ",") + std::to_string(broker);
  return text.empty() ? "-" : text;
}

// A row for each topic; for one that was named, a row for each of its partitions.
int Topics(const std::string& list, const std::string& topic) {
  const std::optional<std::vector<Endpoint>> brokers = ParseServers(list);
  if (!brokers) return kUsage;
  const std::optional<std::string> wanted =
      topic.empty() ? std::nullopt : std::optional<std::string>(topic);
  // All brokers tell the same: the first that answers will do.
  absl::StatusOr<kafka::MetadataResponse> found;
  for (const Endpoint& broker : *brokers) {
    found = AskMetadata(broker, wanted, kTimeout);
    if (found.ok()) break;
    std::fprintf(stderr, "lockstep: %s%s\n", std::string(found.status().message()).c_str(),
                 SaysIfCoordinator(broker).c_str());
  }
  if (!found.ok()) return kNotFine;

  int status = kFine;
  std::vector<std::vector<std::string>> topics = {
      {"TOPIC", "PARTITIONS", "REPLICAS", "WITHOUT LEADER", "NOT ALL IN SYNC"}};
  std::vector<std::vector<std::string>> partitions = {
      {"PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC"}};
  auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(found->topics.begin(), found->topics.end(), by_name);
  for (auto& one : found->topics) {
    if (one.error_code != kafka::ErrorCode::kNone && one.partitions.empty()) {
      std::fprintf(stderr, "lockstep: %s: %s\n", one.name.value_or("").c_str(),
                   kafka::ToString(one.error_code).c_str());
      status = kNotFine;
      continue;
    }
    auto by_index = [](const auto& a, const auto& b) {
      return a.partition_index < b.partition_index;
    };
    std::sort(one.partitions.begin(), one.partitions.end(), by_index);
    size_t leaderless = 0, behind = 0, replicas = 0;
    for (const auto& partition : one.partitions) {
      const bool led = partition.leader_id >= 0;
      leaderless += !led;
      behind += partition.isr_nodes.size() < partition.replica_nodes.size();
      replicas = std::max(replicas, partition.replica_nodes.size());
      partitions.push_back({std::to_string(partition.partition_index),
                            led ? std::to_string(partition.leader_id) : "none",
                            std::to_string(partition.leader_epoch), Join(partition.replica_nodes),
                            Join(partition.isr_nodes)});
    }
    if (leaderless > 0) status = kNotFine;
    topics.push_back({one.name.value_or(""), std::to_string(one.partitions.size()),
                      std::to_string(replicas), std::to_string(leaderless),
                      std::to_string(behind)});
  }
  const auto& rows = wanted ? partitions : topics;
  if (status == kFine || rows.size() > 1) std::fputs(FormatTable(rows).c_str(), stdout);
  return status;
}

int CheckConfig(const std::string& file) {
  const LoadedConfig loaded = LoadConfig(file);
  for (const Remark& remark : loaded.notices) {
    std::printf("%s: %s\n", remark.warning ? "warning" : "notice", remark.ToString().c_str());
  }
  for (const Remark& remark : loaded.errors) {
    std::printf("error: %s\n", remark.ToString().c_str());
  }
  if (!loaded.errors.empty()) return kNotFine;
  std::printf("%s: %s\n", file.c_str(), loaded.config.Summary().c_str());
  return kFine;
}

// CLI11 says of a word that is no subcommand only that one is required. The word, if it is one.
std::optional<std::string> UnknownSubcommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::vector<const CLI::App*> known = at->get_subcommands({});
    if (word.starts_with('-') || known.empty()) return std::nullopt;
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const CLI::App* one) { return one->get_name() == word; });
    if (found == known.end()) {
      std::string names;
      for (const CLI::App* one : known) names += (names.empty() ? "" : ", ") + one->get_name();
      return "there is no subcommand `" + word + "`; there are: " + names;
    }
    at = *found;
  }
  return std::nullopt;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "lockstep, the command line for operators of lockstepd, and of ZooKeeper and Kafka servers",
      "lockstep"};
  app.footer(R"(
Examples:
  lockstep status 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183
  lockstep topics 127.0.0.1:9092
  lockstep topics 127.0.0.1:9092 payments
  lockstep 4lw mntr 127.0.0.1:2181
  lockstep config check /etc/lockstep/zoo.cfg

Exit status: 0 fine; 1 a server does not answer, a partition has no leader, or a file has an error;
2 usage)");
  app.set_version_flag("--version", std::string("lockstep ") + kVersion);
  app.require_subcommand(1);

  std::string servers;
  CLI::App* status = app.add_subcommand(
      "status", "Role, zxid, load and latency of each server (asks them `srvr`)");
  status->add_option("SERVERS", servers, "HOST:PORT[,HOST:PORT...], client ports")->required();

  std::string word;
  CLI::App* four_letter_word =
      app.add_subcommand("4lw", "Asks servers a four-letter word, such as srvr, mntr or conf");
  four_letter_word
      ->add_option("WORD", word,
                   "The word; the server's 4lw.commands.whitelist must "
                   "allow it")
      ->required()
      ->check([](const std::string& text) {
        return text.size() == 4 ? "" : "a word of four letters is needed";
      });
  four_letter_word->add_option("SERVERS", servers, "HOST:PORT[,HOST:PORT...], client ports")
      ->required();

  std::string topic;
  CLI::App* topics = app.add_subcommand(
      "topics", "What a broker knows of topics: partitions, leaders, replicas in sync");
  topics
      ->add_option("BROKERS", servers,
                   "HOST:PORT[,HOST:PORT...], of Kafka's protocol; the first that answers is asked")
      ->required();
  topics->add_option("TOPIC", topic, "Its partitions; without it, a line for each topic");

  CLI::App* config = app.add_subcommand("config", "About configuration files");
  config->require_subcommand(1);
  std::string file;
  CLI::App* check = config->add_subcommand(
      "check", "Checks a zoo.cfg and says what lockstepd makes of it; changes nothing");
  check->add_option("FILE", file, "The zoo.cfg")->required();

  if (const auto unknown = UnknownSubcommand(app, argc, argv)) {
    std::fprintf(stderr, "lockstep: %s\nRun with --help for more information.\n", unknown->c_str());
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kFine : kUsage;
  }
  if (status->parsed()) return Status(servers);
  if (four_letter_word->parsed()) return FourLetterWord(word, servers);
  if (topics->parsed()) return Topics(servers, topic);
  return CheckConfig(file);
}

}  // namespace
}  // namespace lockstep::shell

int main(int argc, char** argv) { return lockstep::shell::Main(argc, argv); }
