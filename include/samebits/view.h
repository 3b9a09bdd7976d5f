// Plain strided views: pointer, dtype, device, shape, strides. Nothing is owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include <samebits/dtype.h>
#include <samebits/error.h>

namespace samebits {

/// Where the memory of a view lives.
enum class DeviceType : std::uint8_t { kCpu, kCuda };

/// A device: its type and, for CUDA, its index.
struct Device {
  DeviceType type = DeviceType::kCpu;  ///< kind of memory
  int index = 0;                       ///< ordinal among devices of that type
  /// Same type and index.
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

/// Most dimensions a view may have.
inline constexpr int kMaxRank = 8;

/// A strided view of `rank` dimensions. Strides are in elements and may be zero or negative.
/// `data` points at the element of index 0 in every dimension and needs element alignment only.
template <class Void>
struct BasicTensorView {
  Void* data = nullptr;                           ///< element [0, ..., 0]; may be null when the view is empty
  DType dtype = DType::kFloat32;                  ///< element type
  Device device = {};                             ///< where `data` lives
  int rank = 0;                                   ///< number of dimensions, 0 to kMaxRank
  std::array<std::int64_t, kMaxRank> shape = {};  ///< extents, the first `rank` are used
  std::array<std::int64_t, kMaxRank> strides = {};  ///< in elements, the first `rank` are used
  bool present = false;                             ///< false for an argument that was not given

  /// An argument that was not given.
  BasicTensorView() = default;

  /// A row-major contiguous view.
  BasicTensorView(Void* pointer, DType type, std::span<const std::int64_t> extents, Device where = {})
      : data(pointer), dtype(type), device(where), present(true) {
    assign_shape(extents);
    std::int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= shape[i] > 0 ? shape[i] : 1;
    }
  }
  /// A row-major contiguous view; the shape as a braced list.
  BasicTensorView(Void* pointer, DType type, std::initializer_list<std::int64_t> extents, Device where = {})
      : BasicTensorView(pointer, type, std::span(extents.begin(), extents.size()), where) {}

  /// A view with the strides given, in elements.
  BasicTensorView(Void* pointer, DType type, std::span<const std::int64_t> extents,
                  std::span<const std::int64_t> element_strides, Device where = {})
      : data(pointer), dtype(type), device(where), present(true) {
    assign_shape(extents);
    if (element_strides.size() != extents.size())
      throw Error(ErrorCode::kInvalidArgument, "strides", "must have one entry per dimension");
    for (int i = 0; i < rank; ++i) strides[i] = element_strides[i];
  }
  /// A view with the strides given, in elements; shape and strides as braced lists.
  BasicTensorView(Void* pointer, DType type, std::initializer_list<std::int64_t> extents,
                  std::initializer_list<std::int64_t> element_strides, Device where = {})
      : BasicTensorView(pointer, type, std::span(extents.begin(), extents.size()),
                        std::span(element_strides.begin(), element_strides.size()), where) {}

  /// A mutable view is usable wherever a read-only one is asked for.
  operator BasicTensorView<const void>() const
    requires(!std::is_const_v<Void>)
  {
    BasicTensorView<const void> view;
    view.data = data;
    view.dtype = dtype;
    view.device = device;
    view.rank = rank;
    view.shape = shape;
    view.strides = strides;
    view.present = present;
    return view;
  }

  /// True when the argument was given, even if it is empty.
  explicit operator bool() const { return present; }

  /// Product of the extents (1 for rank 0).
  std::int64_t numel() const {
    std::int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= shape[i];
    return count;
  }

 private:
  void assign_shape(std::span<const std::int64_t> extents) {
    if (extents.size() > static_cast<std::size_t>(kMaxRank))
      throw Error(ErrorCode::kInvalidArgument, "shape", "has more than 8 dimensions; may have 0 to 8");
    rank = static_cast<int>(extents.size());
    for (int i = 0; i < rank; ++i) {
      if (extents[i] < 0)
        throw Error(ErrorCode::kInvalidArgument, "shape", "has a negative extent; extents are >= 0");
      shape[i] = extents[i];
    }
  }
};

/// A view that may be written through.
using TensorView = BasicTensorView<void>;
/// A read-only view.
using ConstTensorView = BasicTensorView<const void>;

}  // namespace samebits
