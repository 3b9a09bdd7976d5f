#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/app.h"
#include "cli/audit_report.h"
#include "cli/audit_state.h"
#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/head_options.h"
#include "cli/record.h"
#include "cli/tensor_file.h"

namespace samebits::cli {
namespace {

constexpr const char* kExamples = R"(
Recomputes every recorded value from the inputs, with the meaning recorded in the file, and compares raw bits. INPUT may
be the file that `samebits logp` read, or any file that holds the same logits or, with --weight, the same hidden states.
The record may come from any machine.
Exit status: 0 all bits the same, 1 some differ (or an input is not the recorded one), 2 the audit could not be done.
After some seconds the state of the audit is kept beside the record; when it was stopped, the same command goes on.

Examples:
  samebits audit rollout.safetensors rollout.logp.safetensors
  samebits audit logits.npy logp.safetensors --twin
  samebits audit hidden.safetensors logp.safetensors --weight checkpoint
  samebits audit hidden.safetensors logp.safetensors --weight model.safetensors::model.embed_tokens.weight
)";

struct AuditArguments {
  std::string input_path, record, state;
  HeadOptions head;
  bool twin = false, json = false;
  RunOptions run;
};

const std::string& metadata_entry(const TensorFile& record, const char* key) {
  const auto found = record.metadata().find(key);
  if (found != record.metadata().end()) return found->second;
  throw CliError(shown(record.path()) + ": has no metadata entry " + shown(key) + "; it is no recorded logp");
}

RecordedMeaning meaning_of(const TensorFile& record, bool with_head) {
  if (record.is_npy())
    throw CliError(shown(record.path()) + ": is an npy file; a record is a safetensors file");
  RecordedMeaning meaning = meaning_from_provenance(metadata_entry(record, record_key::kProvenance),
                                                    shown(record.path()) + ", " + record_key::kProvenance);
  if (meaning.head != with_head) {
    throw CliError(
        with_head ? "--weight: was given; " + shown(record.path()) + " is a record of logp, made of logits"
                  : "--weight: is missing; " + shown(record.path()) + " is a record of linear_logp");
  }
  return meaning;
}

// The recorded tensors, each of the type and shape that the inputs give.
std::vector<Comparison> comparisons_of(const TensorFile& record, const LogpJob& job) {
  std::vector<Comparison> comparisons;
  for (const char* name : {record_tensor::kLogp, record_tensor::kLse, record_tensor::kEntropy}) {
    if (name != record_tensor::kLogp && !record.has(name)) continue;
    const FileTensor& tensor = record.tensor(name, "the recorded log-probabilities");
    if (tensor.type != job.result_type() || tensor.shape != job.leading_shape()) {
      throw CliError(
          shown(record.path()) + ": " + name + " is " + std::string(element_type_name(tensor.type)) + " " +
          shape_text(tensor.shape) + "; these " + job.source_name() + " give " +
          std::string(element_type_name(job.result_type())) + " " + shape_text(job.leading_shape()));
    }
    comparisons.push_back({name, &tensor});
  }
  return comparisons;
}

// Whatever decides what an audit finds.
nlohmann::ordered_json identity_of(const TensorFile& record, const LogpJob& job, const std::string& judge) {
  nlohmann::ordered_json identity;
  identity["version"] = version();
  identity["judge"] = judge;
  identity["record"] = file_identity(record.file());
  identity[job.source_name()] = file_identity(*job.inputs().file);
  identity["tensor"] = job.inputs().source.name;
  if (const Head* head = job.inputs().head) {
    for (std::size_t i = 0; i < head->parts().size(); ++i) {
      const std::string key = "weight" + (i == 0 ? "" : " " + std::to_string(i + 1));
      identity[key] = file_identity(head->parts()[i].file->file());
      identity[key + " tensor"] = head->parts()[i].tensor.name;
    }
    if (const LocatedTensor* bias = head->bias_source()) {
      identity["bias"] = file_identity(bias->file->file());
      identity["bias tensor"] = bias->tensor.name;
    }
  }
  return identity;
}

// An audit in progress: what was found so far, and where that is kept.
class Audit {
 public:
  Audit(const LogpJob& job, AuditFindings& findings, AuditState& state)
      : job_(job), findings_(findings), state_(state) {}

  /// Goes on where an earlier audit stopped, if one did.
  LogpJob::Start start() {
    const auto progress = state_.load();
    if (!progress) return {};
    LogpJob::Start start;
    std::string digest;
    bool complete = progress->contains("next_row") && progress->at("next_row").is_number_unsigned() &&
                    progress->contains("digest") && progress->at("digest").is_string();
    if (complete) {
      start.row = progress->at("next_row").get<std::int64_t>();
      digest = progress->at("digest").get<std::string>();
      complete = start.row >= 0 && start.row <= job_.rows() && digest.size() == 16 &&
                 digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    }
    for (Comparison& comparison : findings_.comparisons) {
      complete = complete && progress->contains(comparison.name) &&
                 comparison.restore(progress->at(comparison.name));
    }
    if (!complete) throw CliError(shown(state_.path()) + ": is not a whole state; delete it to begin again");
    start.digest = std::stoull(digest, nullptr, 16);
    findings_.first_row = start.row;
    return start;
  }

  void add(const ChunkResult& chunk) {
    for (Comparison& comparison : findings_.comparisons) {
      comparison.add(chunk.first_row, comparison.name == record_tensor::kLogp  ? chunk.logp
                                      : comparison.name == record_tensor::kLse ? chunk.lse
                                                                               : chunk.entropy);
    }
    const std::int64_t next = chunk.first_row + chunk.rows;
    if (next < job_.rows()) state_.save_at_times(progress(next), words(next));
  }

  void save(std::int64_t next_row) { state_.save(progress(next_row), words(next_row)); }

 private:
  nlohmann::ordered_json progress(std::int64_t next_row) const {
    nlohmann::ordered_json json;
    json["next_row"] = next_row;
    json["digest"] = digest_text(job_.digest());
    for (const Comparison& comparison : findings_.comparisons)
      json[comparison.name] = comparison.json(job_.leading_shape());
    return json;
  }
  std::string words(std::int64_t next_row) const {
    return "\nsamebits: stopped; the same command goes on from row " + std::to_string(next_row) + " of " +
           std::to_string(job_.rows()) + " (kept in " + shown(state_.path()) + ")";
  }

  const LogpJob& job_;
  AuditFindings& findings_;
  AuditState& state_;
};

int run_audit(const AuditArguments& arguments) {
  const TensorFile record(arguments.record);
  const RecordedMeaning meaning = meaning_of(record, !arguments.head.weights.empty());
  const TensorFile input(arguments.input_path);
  const std::unique_ptr<Head> head = arguments.head.open();

  LogpInputs inputs;
  inputs.file = &input.file();
  inputs.source = input.tensor(arguments.head.source_name(), arguments.head.source_option());
  inputs.targets = record.tensor(record_tensor::kTargets, "the targets of the record");
  inputs.contract = meaning.product();
  set_head(inputs, head.get(), arguments.twin);
  if (meaning.row_temperature) {
    inputs.row_temperature = record.tensor(record_tensor::kRowTemperature, "the recorded temperatures");
  }
  if (meaning.rows) inputs.rows = record.tensor(record_tensor::kRows, "the recorded row list");
  const Wanted wanted{record.has(record_tensor::kLse), record.has(record_tensor::kEntropy)};
  LogpJob job(inputs, meaning.settings, wanted, arguments.run.backend);
  if (job.plan().contract != meaning.contract) {
    throw CliError(shown(record.path()) + ": was recorded under " + shown(meaning.contract) + "; these " +
                   job.source_name() + " are computed under " + job.plan().contract);
  }

  AuditFindings findings;
  findings.comparisons = comparisons_of(record, job);
  findings.inputs = recorded_inputs(record.metadata(), job);
  findings.recorded_provenance = metadata_entry(record, record_key::kProvenance);
  findings.judge = arguments.twin ? "the scalar twin" : job.plan().backend;
  const bool asked_for = !arguments.state.empty();
  AuditState state(asked_for ? arguments.state : arguments.record + ".audit", asked_for,
                   identity_of(record, job, findings.judge));
  Audit audit(job, findings, state);
  const LogpJob::Start start = audit.start();
  if (asked_for && start.row == 0) audit.save(0);  // rather now than after an hour: can it be written?

  const auto begin = std::chrono::steady_clock::now();
  job.run(
      job_forward(job, arguments.run, arguments.twin), arguments.run.progress(), "audit",
      [&](const ChunkResult& chunk) { audit.add(chunk); }, start);
  findings.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  findings.computed = job.live_rows(start.row, job.rows());
  for (RecordedInput& rows : findings.inputs) {
    if (rows.name == job.source_name()) rows.found = digest_text(job.digest());
  }
  if (arguments.json) {
    std::printf("%s\n", findings_json(findings, job).c_str());
  } else if (!arguments.run.quiet) {
    print_findings(findings, job);
  }
  std::fflush(stdout);
  state.remove();
  return findings.all_same() ? kSame : kDiffers;
}

}  // namespace

void add_audit(CLI::App& app, int& status) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command =
      app.add_subcommand("audit", "recompute recorded log-probabilities and compare their bits");
  command->footer(kExamples);
  command
      ->add_option("INPUT", arguments->input_path,
                   "safetensors or npy file with the logits, or with --weight the hidden states")
      ->required();
  command->add_option("RECORD", arguments->record, "safetensors file that samebits logp or a trainer wrote")
      ->required();
  arguments->head.add_to(*command);
  command->add_flag("--twin", arguments->twin, "recompute with the scalar twin instead of a backend (slow)");
  command->add_option(
      "--state", arguments->state,
      "file that keeps how far the audit has come, and from which it goes on (default: RECORD.audit)");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  arguments->run.add_to(*command);
  command->callback([arguments, &status] { status = run_audit(*arguments); });
}

}  // namespace samebits::cli
