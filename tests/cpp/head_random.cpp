#include "head_random.h"

#include <cmath>

namespace samebits::test {

void vary_head(HeadCase& head, Rng& rng) {
  LogpCase& c = head.logp;
  const std::int64_t vocab = c.columns;
  const DType dtype = head.hidden.dtype, real = c.real();
  if (rng.chance(4)) head.weight = random_elements(rng, dtype, vocab * head.size);
  if (rng.chance(8)) head.hidden = random_elements(rng, dtype, c.rows * head.size);
  head.hidden_lay = kLays[rng.below(7)];
  head.weight_lay = kLays[rng.below(7)];
  if (rng.chance(2)) {
    head.bias = normal_elements(rng, dtype, vocab);
    for (std::int64_t v = 0; rng.chance(2) && v < vocab; ++v)
      if (rng.chance(2)) set_element(head.bias, v, -INFINITY);
  }
  if (rng.chance(3)) c.vocab = rng.between(1, vocab);
  if (rng.chance(3)) c.temperature = 0.25 + rng.uniform();
  for (std::int64_t& target : c.targets)
    if (rng.chance(8)) target = rng.pick<std::int64_t>({-100, -1, vocab, (std::int64_t{1} << 32) + 1});
  if (rng.chance(3)) c.ignore_index = rng.below(vocab);
  if (rng.chance(3)) {
    c.selected.emplace();
    for (std::int64_t k = rng.below(2 * c.rows + 1); k > 0; --k)
      c.selected->push_back(rng.between(-2, c.rows + 1));
  }
  if (rng.chance(4)) {
    c.row_temperature = Values(DType::kFloat32, c.rows);
    for (std::int64_t row = 0; row < c.rows; ++row) set_element(c.row_temperature, row, 0.5 + rng.uniform());
  }
  if (rng.chance(8)) c.grad_logp = {};
  if (rng.chance(2)) c.grad_lse = normal_elements(rng, real, c.rows);
  if (rng.chance(3)) c.grad_entropy = random_elements(rng, real, c.rows);
  if (rng.chance(8)) c.grad_logp = random_elements(rng, real, c.rows);
}

HeadCase edge_head_case(const std::string& edge, DType dtype, std::int64_t size) {
  Rng rng(7);
  HeadCase head = random_head_case(rng, 5, 40, size, dtype);
  head.bias = normal_elements(rng, dtype, 40);
  Values entropy = normal_elements(rng, DType::kFloat32, 5);
  if (edge == "nan hidden") set_element(head.hidden, size, NAN);
  if (edge == "inf hidden") set_element(head.hidden, size, INFINITY);
  if (edge == "empty row")
    for (std::int64_t v = 0; v < 40; ++v) set_element(head.bias, v, -INFINITY);
  if (edge == "zero weight") head.weight = Values(dtype, 40 * size);
  if (edge == "inf weight") set_element(head.weight, 100, -INFINITY);
  if (edge == "nan weight") set_element(head.weight, 100, NAN);
  if (edge == "huge weight") {
    for (std::int64_t i = 0; i < 40 * size; i += size)
      set_element(head.weight, i, dtype == DType::kFloat16 ? 6e4 : 3e38);
    for (std::int64_t i = 0; i < 5 * size; i += size) set_element(head.hidden, i, 0);
  }
  if (edge == "nan upstream") set_element(head.logp.grad_logp, 2, NAN);
  if (edge == "inf entropy") set_element(entropy, 2, INFINITY);
  if (edge == "huge entropy") set_element(entropy, 2, 2e38);
  if (edge == "tiny entropy") set_element(entropy, 2, 1e-45);
  if (edge.find("entropy") != std::string::npos) head.logp.grad_entropy = entropy;
  return head;
}

std::string head_text(const HeadCase& head) {
  return std::string(dtype_name(head.hidden.dtype)) + " " + head.contract + ", rows " +
         std::to_string(head.logp.rows) + ", V " + std::to_string(head.logp.vocab) + " of " +
         std::to_string(head.logp.columns) + ", H " + std::to_string(head.size) + ", layouts " +
         std::to_string(static_cast<int>(head.hidden_lay)) + " and " +
         std::to_string(static_cast<int>(head.weight_lay));
}

}  // namespace samebits::test
