#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include <samebits/plan.h>

#include "cli/app.h"
#include "cli/commands.h"

namespace samebits::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  samebits info
  samebits info --json | jq .backends
)";

Plan ask(const char* op, DType dtype) {
  PlanRequest request;
  request.op = op;
  request.dtype = dtype;
  return plan(request);
}

nlohmann::ordered_json gather() {
  nlohmann::ordered_json json;
  json["version"] = version();
  json["threads"] = std::thread::hardware_concurrency();
  const Plan chosen = ask("logp", DType::kFloat32);
  for (const BackendInfo& backend : backends()) {
    nlohmann::ordered_json entry = {{"name", backend.name}, {"available", backend.available}};
    if (!backend.available) entry["reason"] = backend.reason;
    entry["in_use"] = backend.name == chosen.backend;
    json["backends"].push_back(entry);
  }
  for (const char* op : {"logp", "linear_logp", "matmul"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
      const Plan plan = ask(op, dtype);
      nlohmann::ordered_json entry = {{"op", op}, {"dtype", dtype_name(dtype)}};
      if (plan.refusals.empty()) {
        entry["contract"] = plan.contract;
        entry["level"] = plan.level;
      } else {
        entry["refusals"] = plan.refusals;
      }
      json["contracts"].push_back(entry);
    }
  }
  return json;
}

void print_table(const nlohmann::ordered_json& json) {
  std::printf("samebits %s, %d hardware threads\n\nbackends\n", json["version"].get<std::string>().c_str(),
              json["threads"].get<int>());
  for (const auto& backend : json["backends"]) {
    const std::string state = backend["in_use"].get<bool>() ? "in use"
                              : backend["available"].get<bool>()
                                  ? "available"
                                  : "no: " + backend["reason"].get<std::string>();
    std::printf("  %-10s %s\n", backend["name"].get<std::string>().c_str(), state.c_str());
  }
  std::printf("\ncontracts\n");
  for (const auto& entry : json["contracts"]) {
    const bool runs = entry.contains("contract");
    const std::string answer =
        runs ? entry["contract"].get<std::string>() + "  (" + entry["level"].get<std::string>() + ")"
             : "refused: " + entry["refusals"][0].get<std::string>();
    std::printf("  %-12s %-9s %s\n", entry["op"].get<std::string>().c_str(),
                entry["dtype"].get<std::string>().c_str(), answer.c_str());
  }
}

}  // namespace

void add_info(CLI::App& app, int& status) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("info", "version, backends, contracts and threads of this build and machine");
  command->footer(kExamples);
  command->add_flag("--json", *as_json, "print JSON");
  command->callback([as_json, &status] {
    const nlohmann::ordered_json json = gather();
    if (*as_json) {
      std::printf("%s\n", json.dump(2).c_str());
    } else {
      print_table(json);
    }
    status = kSame;
  });
}

}  // namespace samebits::cli
