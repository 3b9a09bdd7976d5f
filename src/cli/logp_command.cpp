#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/app.h"
#include "cli/cli_error.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/head_options.h"
#include "cli/record.h"
#include "cli/safetensors_writer.h"
#include "cli/tensor_location.h"

namespace samebits::cli {
namespace {

constexpr const char* kExamples = R"(
Inputs are safetensors or npy files, told apart by their content. The output holds logp (and lse, entropy), a copy of
the targets and, in its metadata, the contract id and the provenance: `samebits audit` needs nothing else
but the inputs. Invalid ids give logp 0 and lse -inf unless --on-invalid says otherwise.
With --weight the input holds hidden states, and the logits are those of the LM head: a file, a folder of a checkpoint
or its index, and ::NAME where the tensor is not called lm_head.weight.

Examples:
  samebits logp rollout.safetensors -o rollout.logp.safetensors
  samebits logp logits.npy targets.npy --temperature 0.7 --ignore-index -100 -o logp.safetensors
  samebits logp hidden.safetensors --weight checkpoint -o logp.safetensors
  samebits logp step.safetensors --logits policy_logits --targets tokens --entropy -o out.safetensors --force
)";

struct LogpArguments {
  std::string input_path, targets_path, output;
  std::string targets_name = "targets", row_temperature, rows;
  HeadOptions head;
  std::string contract = "auto", on_invalid = "zero", precision = "from_logits";
  LogpSettings settings;
  Wanted wanted;
  bool force = false;
  RunOptions run;
};

// A further input: the tensor of that name beside the main one, or an npy file of its own.
LocatedTensor extra_input(const TensorFile& main, const std::string& value, const std::string& role) {
  if (value.ends_with(".npy")) return locate_tensor(value, "unnamed", role);
  if (main.is_npy())
    throw CliError(role + ": was " + shown(value) + "; beside an npy input it is an npy file");
  return {nullptr, main.tensor(value, role)};
}

// Overwriting an input with the output would lose what an audit needs.
void require_not_an_input(const std::string& output, const TensorFile* file) {
  if (file != nullptr && file->file().is_same_file(output)) {
    throw CliError("--out: " + shown(output) + " is an input file; name another");
  }
}

std::vector<OutputTensor> output_tensors(const LogpJob& job) {
  const auto shape = job.leading_shape();
  const LogpInputs& inputs = job.inputs();
  std::vector<OutputTensor> tensors = {{record_tensor::kLogp, job.result_type(), shape}};
  if (job.wants_lse()) tensors.push_back({record_tensor::kLse, job.result_type(), shape});
  if (job.wants_entropy()) tensors.push_back({record_tensor::kEntropy, job.result_type(), shape});
  tensors.push_back({record_tensor::kTargets, inputs.targets.type, shape});
  if (inputs.row_temperature) {
    tensors.push_back({record_tensor::kRowTemperature, inputs.row_temperature->type, shape});
  }
  if (inputs.rows) tensors.push_back({record_tensor::kRows, inputs.rows->type, inputs.rows->shape});
  return tensors;
}

void run_logp(LogpArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  LogpSettings& settings = arguments.settings;
  settings.on_invalid = on_invalid_from_name(arguments.on_invalid);
  settings.precision = precision_from_name(arguments.precision);

  const TensorFile main(arguments.input_path);
  if (arguments.targets_path.empty() && main.is_npy()) {
    throw CliError("TARGETS: is missing; an npy input needs a second file with the targets");
  }
  const auto second =
      arguments.targets_path.empty() ? nullptr : std::make_unique<TensorFile>(arguments.targets_path);
  const TensorFile& targets_file = second ? *second : main;
  const std::unique_ptr<Head> head = arguments.head.open();

  LogpInputs inputs;
  inputs.file = &main.file();
  inputs.source = main.tensor(arguments.head.source_name(), arguments.head.source_option());
  inputs.targets = targets_file.tensor(arguments.targets_name, "--targets");
  inputs.contract = arguments.contract;
  set_head(inputs, head.get(), false);
  LocatedTensor temperature, rows;
  if (!arguments.row_temperature.empty()) {
    temperature = extra_input(main, arguments.row_temperature, "--row-temperature");
    inputs.row_temperature = temperature.tensor;
  }
  if (!arguments.rows.empty()) {
    rows = extra_input(main, arguments.rows, "--rows");
    inputs.rows = rows.tensor;
  }
  std::vector<const TensorFile*> files = {&main, second.get(), temperature.file.get(), rows.file.get()};
  if (head) {
    for (const LocatedTensor& part : head->parts()) files.push_back(part.file.get());
    if (head->bias_source() != nullptr) files.push_back(head->bias_source()->file.get());
  }
  for (const TensorFile* file : files) require_not_an_input(arguments.output, file);

  LogpJob job(inputs, settings, arguments.wanted, arguments.run.backend);
  const std::vector<OutputTensor> tensors = output_tensors(job);
  auto metadata = record_metadata(job);
  SafetensorsWriter writer(arguments.output, arguments.force, tensors, metadata);
  std::size_t next = 1 + job.wants_lse() + job.wants_entropy();
  writer.write(next++, 0, inputs.targets.data);
  if (inputs.row_temperature) writer.write(next++, 0, inputs.row_temperature->data);
  if (inputs.rows) writer.write(next++, 0, inputs.rows->data);

  const auto element_bytes = static_cast<std::uint64_t>(element_bits(job.result_type())) / 8;
  const auto write = [&](const ChunkResult& chunk) {
    const std::uint64_t offset = static_cast<std::uint64_t>(chunk.first_row) * element_bytes;
    std::size_t tensor = 0;
    writer.write(tensor++, offset, chunk.logp);
    if (job.wants_lse()) writer.write(tensor++, offset, chunk.lse);
    if (job.wants_entropy()) writer.write(tensor++, offset, chunk.entropy);
  };
  job.run(job_forward(job, arguments.run, false), arguments.run.progress(), "logp", write, {});
  const auto [key, value] = rows_entry(job);
  metadata[key] = value;
  writer.commit(metadata);

  if (arguments.run.quiet) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %lld rows, %s, %s, %s\n", arguments.output.c_str(), static_cast<long long>(job.rows()),
              job.plan().contract.c_str(), job.plan().backend.c_str(), duration_text(seconds).c_str());
}

}  // namespace

void add_logp(CLI::App& app, int& status) {
  auto arguments = std::make_shared<LogpArguments>();
  CLI::App* command = app.add_subcommand(
      "logp", "log-probabilities of selected tokens, from a file of logits or of hidden states");
  command->footer(kExamples);
  command
      ->add_option(
          "INPUT", arguments->input_path,
          "file with the logits [..., vocabulary] or hidden states [..., hidden size] (and the targets)")
      ->required();
  command->add_option("TARGETS", arguments->targets_path,
                      "file with the targets [...], when they are not in INPUT");
  command->add_option("-o,--out,--output", arguments->output, "safetensors file to write")->required();
  command->add_flag("--force", arguments->force, "replace the output file if it exists");
  CLI::Option* weight = arguments->head.add_to(*command);
  command->add_option("--contract", arguments->contract, "of the product with the head: auto, tc16 or fma")
      ->capture_default_str()
      ->needs(weight);
  command->add_option("--targets", arguments->targets_name, "name of the targets tensor")
      ->capture_default_str();
  auto* scalar = command
                     ->add_option("--temperature", arguments->settings.temperature,
                                  "logits are divided by this before normalising")
                     ->capture_default_str();
  command
      ->add_option("--row-temperature", arguments->row_temperature,
                   "tensor, or npy file, with one temperature a row")
      ->excludes(scalar);
  command->add_option("--rows", arguments->rows,
                      "tensor, or npy file, listing the rows to compute; others give the zero form");
  command->add_option("--vocab-size", arguments->settings.vocab_size,
                      "true vocabulary; columns beyond it are padding");
  command->add_option("--ignore-index", arguments->settings.ignore_index,
                      "an id that always gives the zero form");
  command
      ->add_option("--on-invalid", arguments->on_invalid, "an id outside the vocabulary: zero, nan or raise")
      ->capture_default_str();
  command
      ->add_option("--precision", arguments->precision,
                   "from_logits, or fp64 for row64.v1 whatever the logits are")
      ->capture_default_str();
  command->add_flag("--lse", arguments->wanted.lse, "also write the log of the sum of exponentials");
  command->add_flag("--entropy", arguments->wanted.entropy, "also write the entropy");
  arguments->run.add_to(*command);
  command->callback([arguments, &status] {
    run_logp(*arguments);
    status = kSame;
  });
}

}  // namespace samebits::cli
