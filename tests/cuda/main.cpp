// Runs the GPU tests, or says why it cannot and exits with 77, which CTest reports as skipped.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

#include <samebits/cuda.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("no test was run: no CUDA device (%s)\n", cudaGetErrorString(status));
    return 77;
  }
  samebits::cuda::enable();
  return RUN_ALL_TESTS();
}
