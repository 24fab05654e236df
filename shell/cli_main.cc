// lockstep: the operator's command line.
#include <algorithm>
#include <cstdio>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "shell/config.h"
#include "shell/four_letter_client.h"
#include "shell/member_line.h"
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

int Status(const std::string& list) {
  const std::optional<std::vector<Endpoint>> servers = ParseServers(list);
  if (!servers) return kUsage;
  // All at once: one server that does not answer must not delay the word of the others.
  std::vector<std::future<absl::StatusOr<std::string>>> answers;
  for (const Endpoint& server : *servers) {
    answers.push_back(std::async(
        std::launch::async, [&server] { return AskFourLetterWord(server, "srvr", kTimeout); }));
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

  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    std::printf("%s\n", line.c_str());
  }
  for (const std::string& failure : failures)
    std::fprintf(stderr, "lockstep: %s\n", failure.c_str());
  return failures.empty() ? kFine : kNotFine;
}

int FourLetterWord(const std::string& word, const std::string& list) {
  const std::optional<std::vector<Endpoint>> servers = ParseServers(list);
  if (!servers) return kUsage;
  int status = kFine;
  for (const Endpoint& server : *servers) {
    absl::StatusOr<std::string> answer = AskFourLetterWord(server, word, kTimeout);
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

int CheckConfig(const std::string& file) {
  const LoadedConfig loaded = LoadConfig(file);
  for (const Remark& remark : loaded.notices) {
    std::printf("notice: %s\n", remark.ToString().c_str());
  }
  for (const Remark& remark : loaded.errors) {
    std::printf("error: %s\n", remark.ToString().c_str());
  }
  if (!loaded.errors.empty()) return kNotFine;
  const Config& config = loaded.config;
  std::printf("%s: server %s of %zu, clients on %s, data in %s, journal in %s\n", file.c_str(),
              config.server.ToString().c_str(), config.voters().size(),
              config.client.ToString().c_str(), config.data_dir.c_str(), config.log_dir.c_str());
  return kFine;
}

int Main(int argc, char** argv) {
  CLI::App app{"lockstep, the command line for operators of lockstepd and ZooKeeper servers",
               "lockstep"};
  app.footer(R"(
Examples:
  lockstep status 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183
  lockstep 4lw mntr 127.0.0.1:2181
  lockstep config check /etc/lockstep/zoo.cfg

Exit status: 0 fine; 1 a server does not answer or a file has an error; 2 usage)");
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

  CLI::App* config = app.add_subcommand("config", "About configuration files");
  config->require_subcommand(1);
  std::string file;
  CLI::App* check = config->add_subcommand(
      "check", "Checks a zoo.cfg and says what lockstepd makes of it; changes nothing");
  check->add_option("FILE", file, "The zoo.cfg")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kFine : kUsage;
  }
  if (status->parsed()) return Status(servers);
  if (four_letter_word->parsed()) return FourLetterWord(word, servers);
  return CheckConfig(file);
}

}  // namespace
}  // namespace lockstep::shell

int main(int argc, char** argv) { return lockstep::shell::Main(argc, argv); }
