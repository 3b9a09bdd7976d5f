// Embedding calls: the twin's answer, and the public API's from tensors laid out in any way.
#pragma once

#include <optional>
#include <vector>

#include <samebits/samebits.h>

#include "matmul_case.h"
#include "strided.h"

namespace samebits::test {

// What a call computes, apart from where its tensors lie.
struct EmbeddingCase {
  std::int64_t vocab = 0, columns = 0;
  std::vector<std::int64_t> ids;
  Values weight, grad;  // [vocab, columns], [ids, columns]
  EmbeddingOptions options;
  bool accumulate = false;  // the gradient is added to kAccumulated
};

// A row of the lookup for each id, and the gradient of the table.
struct EmbeddingResult {
  Values out, gradient;
};

// How the tensors of a call lie in memory. Nothing here may change a bit.
struct EmbeddingLayout {
  std::vector<std::int64_t> leading = {};  // empty: [ids]
  Placement ids = {}, weight = {}, grad = {}, out = {}, gradient = {};
  bool apart = false;  // neighbouring columns of weight and grad are not neighbours in memory
  bool narrow_ids = false;
  bool with_workspace = false;
};

// Normal weight and upstream; ids of which some repeat.
EmbeddingCase embedding_case(Rng& rng, std::int64_t count, std::int64_t vocab, std::int64_t columns,
                             DType dtype);

// Any elements, ids and options, and a layout that fits.
EmbeddingCase random_embedding_case(Rng& rng);
EmbeddingLayout random_embedding_layout(Rng& rng, const EmbeddingCase& c);

EmbeddingResult embedding_twin(const EmbeddingCase& c);

// Fails the running test when a gap or an input was written.
EmbeddingResult embedding_call(const EmbeddingCase& c, const EmbeddingLayout& layout,
                               const ExecContext& context, Residence& residence);
EmbeddingResult embedding_call(const EmbeddingCase& c, const EmbeddingLayout& layout = {},
                               const ExecContext& context = {});

::testing::AssertionResult same_embedding(const EmbeddingResult& expected, const EmbeddingResult& actual,
                                          Finite finite = Finite::kSome);

}  // namespace samebits::test
