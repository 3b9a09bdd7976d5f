#include "cuda/launch/product.h"

namespace samebits::cuda {

void segment_product(const SegmentProduct& product, const core::DeviceCall& call) {
  Product raw = product;
  raw.out_dtype = product.a_dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  raw.tc16 ? product_mma(raw, call) : product_fma(raw, call);
}

}  // namespace samebits::cuda
