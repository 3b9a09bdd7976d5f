#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/bits.h"
#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/record.h"
#include "cli/tensor_file.h"
#include "cli/twin.h"

namespace samebits::cli {
namespace {

constexpr const char* kExamples = R"(
Recomputes every recorded value from the logits, with the meaning recorded in the file, and compares raw bits. LOGITS may
be the file that `samebits logp` read, or any file that holds the same logits. The record may come from any machine.
Exit status: 0 all bits the same, 1 some differ (or the logits are not the recorded ones), 2 the audit could not be done.

Examples:
  samebits audit rollout.safetensors rollout.logp.safetensors
  samebits audit logits.npy logp.safetensors --twin
)";

struct AuditArguments {
  std::string record, logits_path, logits_name = "logits";
  bool twin = false, json = false;
  RunOptions run;
};

// What came out of comparing one recorded tensor.
struct Comparison {
  const char* name;
  const FileTensor* recorded = nullptr;  // null when the record does not hold it
  std::int64_t differing = 0;
  std::int64_t first_row = -1;
  std::string recorded_value, recomputed_value, distance;

  void add(std::int64_t first, std::span<const std::byte> computed) {
    if (recorded == nullptr) return;
    const std::size_t size = static_cast<std::size_t>(element_bits(recorded->type)) / 8;
    const auto expected = recorded->data.subspan(static_cast<std::size_t>(first) * size, computed.size());
    const auto at = first_difference(expected, computed, size);
    if (!at) return;
    differing += count_differences(expected, computed, size);
    if (first_row >= 0) return;
    first_row = first + *at;
    const auto a = expected.subspan(static_cast<std::size_t>(*at) * size, size);
    const auto b = computed.subspan(static_cast<std::size_t>(*at) * size, size);
    recorded_value = value_text(a);
    recomputed_value = value_text(b);
    distance = ulp_text(a, b);
  }
};

// Position of a flat row in the leading shape.
std::vector<std::int64_t> position_of(std::int64_t row, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; row /= shape[i]) position[i] = row % shape[i];
  return position;
}

const FileTensor* recorded_tensor(const TensorFile& record, const char* name, const LogpJob& job) {
  if (!record.has(name)) return nullptr;
  const FileTensor& tensor = record.tensor(name, name);
  if (tensor.type != job.result_type() || tensor.shape != job.leading_shape()) {
    throw CliError(shown(record.path()) + ": " + name + " is " + std::string(element_type_name(tensor.type)) +
                   " " + shape_text(tensor.shape) + "; these logits give " +
                   std::string(element_type_name(job.result_type())) + " " + shape_text(job.leading_shape()));
  }
  return &tensor;
}

const std::string& metadata_entry(const TensorFile& record, const char* key) {
  const auto found = record.metadata().find(key);
  if (found != record.metadata().end()) return found->second;
  throw CliError(shown(record.path()) + ": has no metadata entry " + shown(key) + "; it is no recorded logp");
}

void report(const std::vector<Comparison>& comparisons, const LogpJob& job, const std::string& judge,
            const std::optional<std::string>& digest) {
  std::string names;
  bool same = true;
  for (const Comparison& comparison : comparisons) {
    if (comparison.recorded == nullptr) continue;
    names += (names.empty() ? "" : ", ") + std::string(comparison.name);
    if (comparison.differing == 0) continue;
    same = false;
    const auto position = position_of(comparison.first_row, job.leading_shape());
    const std::string token = position.empty() ? "" : ", token " + std::to_string(position.back());
    std::printf(
        "%s differs in %lld of %lld rows; first at row %lld (position %s%s): recorded %s, recomputed %s, "
        "%s\n",
        comparison.name, static_cast<long long>(comparison.differing), static_cast<long long>(job.rows()),
        static_cast<long long>(comparison.first_row), shape_text(position).c_str(), token.c_str(),
        comparison.recorded_value.c_str(), comparison.recomputed_value.c_str(), comparison.distance.c_str());
  }
  const bool other_logits = digest && *digest != job.digest_hex();
  if (other_logits) {
    std::printf("the logits are not the recorded ones: digest %s, recorded %s\n", job.digest_hex().c_str(),
                shown(*digest).c_str());
  }
  if (same) {
    std::printf("same bits: %s of %lld rows, %s, recomputed by %s%s\n", names.c_str(),
                static_cast<long long>(job.rows()), job.plan().contract.c_str(), judge.c_str(),
                digest && !other_logits ? ", logits as recorded" : "");
  }
}

std::string report_json(const std::vector<Comparison>& comparisons, const LogpJob& job,
                        const std::string& judge, const std::optional<std::string>& digest) {
  nlohmann::ordered_json json;
  json["contract"] = job.plan().contract;
  json["judge"] = judge;
  json["rows"] = job.rows();
  json["logits_as_recorded"] =
      digest ? nlohmann::ordered_json(*digest == job.digest_hex()) : nlohmann::ordered_json();
  for (const Comparison& comparison : comparisons) {
    if (comparison.recorded == nullptr) continue;
    auto& entry = json["tensors"][comparison.name];
    entry["differing_rows"] = comparison.differing;
    if (comparison.differing == 0) continue;
    entry["first_row"] = comparison.first_row;
    entry["first_position"] = position_of(comparison.first_row, job.leading_shape());
    entry["recorded"] = comparison.recorded_value;
    entry["recomputed"] = comparison.recomputed_value;
    entry["distance"] = comparison.distance;
  }
  return json.dump(2);
}

int run_audit(const AuditArguments& arguments) {
  const TensorFile record(arguments.record);
  if (record.is_npy())
    throw CliError(shown(record.path()) + ": is an npy file; a record is a safetensors file");
  const RecordedMeaning meaning = meaning_from_provenance(
      metadata_entry(record, record_key::kProvenance), shown(record.path()) + ", " + record_key::kProvenance);
  const TensorFile logits(arguments.logits_path);

  LogpInputs inputs;
  inputs.file = &logits.file();
  inputs.logits = logits.tensor(arguments.logits_name, "--logits");
  inputs.targets = record.tensor(record_tensor::kTargets, "the targets of the record");
  if (meaning.row_temperature) {
    inputs.row_temperature = record.tensor(record_tensor::kRowTemperature, "the recorded temperatures");
  }
  if (meaning.rows) inputs.rows = record.tensor(record_tensor::kRows, "the recorded row list");
  const Wanted wanted{record.has(record_tensor::kLse), record.has(record_tensor::kEntropy)};
  LogpJob job(inputs, meaning.settings, wanted, arguments.run.backend);
  if (job.plan().contract != meaning.contract) {
    throw CliError(shown(record.path()) + ": was recorded under " + shown(meaning.contract) +
                   "; these logits are computed under " + job.plan().contract);
  }
  const std::optional<std::string> digest = recorded_digest(record.metadata(), job);

  std::vector<Comparison> comparisons;
  for (const char* name : {record_tensor::kLogp, record_tensor::kLse, record_tensor::kEntropy}) {
    comparisons.push_back({name, recorded_tensor(record, name, job), 0, -1, {}, {}, {}});
  }
  if (comparisons[0].recorded == nullptr)
    record.tensor(record_tensor::kLogp, "the recorded log-probabilities");

  const std::string judge = arguments.twin ? "the scalar twin" : job.plan().backend;
  job.run(arguments.twin ? ForwardFunction(twin_forward) : library_forward(arguments.run),
          arguments.run.progress(), "audit", [&](const ChunkResult& chunk) {
            comparisons[0].add(chunk.first_row, chunk.logp);
            comparisons[1].add(chunk.first_row, chunk.lse);
            comparisons[2].add(chunk.first_row, chunk.entropy);
          });
  if (arguments.json) {
    std::printf("%s\n", report_json(comparisons, job, judge, digest).c_str());
  } else if (!arguments.run.quiet) {
    report(comparisons, job, judge, digest);
  }
  bool same = !digest || *digest == job.digest_hex();
  for (const Comparison& comparison : comparisons) same = same && comparison.differing == 0;
  return same ? kSame : kDiffers;
}

}  // namespace

void add_audit(CLI::App& app, int& status) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command =
      app.add_subcommand("audit", "recompute recorded log-probabilities and compare their bits");
  command->footer(kExamples);
  command->add_option("LOGITS", arguments->logits_path, "safetensors or npy file with the logits")
      ->required();
  command->add_option("RECORD", arguments->record, "safetensors file that samebits logp wrote")->required();
  command->add_option("--logits", arguments->logits_name, "name of the logits tensor")->capture_default_str();
  command->add_flag("--twin", arguments->twin, "recompute with the scalar twin instead of a backend (slow)");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  arguments->run.add_to(*command);
  command->callback([arguments, &status] { status = run_audit(*arguments); });
}

}  // namespace samebits::cli
