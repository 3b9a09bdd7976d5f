# Torch is found by asking Python. find_package(Torch) would drag in a CUDA search of its own and overwrite
# CMAKE_CUDA_ARCHITECTURES; the stable ABI needs only headers and libtorch_cpu.
set(SAMEBITS_HAS_TORCH OFF)
set(samebits_torch_query [=[
import os, sys
try:
    import torch
except Exception as error:
    sys.exit("%s: %s" % (type(error).__name__, error))
root = os.path.dirname(torch.__file__)
print(";".join([torch.__version__, os.path.join(root, "include"), os.path.join(root, "lib")]))
]=])

function(samebits_find_torch)
  unset(problem)  # a caller may have one of its own
  if(SAMEBITS_PYTHON)
    set(python "${SAMEBITS_PYTHON}")
  elseif(PROJECT_IS_TOP_LEVEL AND NOT DEFINED SKBUILD AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
    set(python "${PROJECT_SOURCE_DIR}/.venv/bin/python")  # the environment `make setup` makes
  else()
    if(DEFINED SKBUILD AND DEFINED PYTHON_EXECUTABLE AND NOT DEFINED Python3_EXECUTABLE)
      set(Python3_EXECUTABLE "${PYTHON_EXECUTABLE}")
    endif()
    set(Python3_FIND_VIRTUALENV FIRST)
    find_package(Python3 3.10 COMPONENTS Interpreter QUIET)
    set(python "${Python3_EXECUTABLE}")
  endif()
  if(NOT python)
    set(problem "no Python >= 3.10 was found")
  else()
    execute_process(COMMAND "${python}" -c "${samebits_torch_query}"
      RESULT_VARIABLE status OUTPUT_VARIABLE found ERROR_VARIABLE complaint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(NOT status EQUAL 0)
      string(REGEX REPLACE ".*\n" "" complaint "${complaint}")
      set(problem "${python} cannot import torch (${complaint})")
    else()
      list(GET found 0 version)
      list(GET found 1 include)
      list(GET found 2 lib)
      if(version VERSION_LESS 2.10)
        set(problem "torch ${version} of ${python} is older than 2.10")
      elseif(NOT EXISTS "${include}/torch/csrc/stable/library.h" OR NOT EXISTS "${lib}/libtorch_cpu.so")
        set(problem "torch ${version} of ${python} has no stable-ABI headers or no libtorch_cpu.so")
      endif()
    endif()
  endif()

  if(DEFINED problem)
    if(SAMEBITS_TORCH STREQUAL "ON" AND DEFINED SKBUILD)
      message(FATAL_ERROR "samebits needs torch >= 2.10 in the environment that builds it (${problem}). "
        "Run: pip install --no-build-isolation .   (or set SAMEBITS_TORCH=OFF for the C++ package alone)")
    elseif(SAMEBITS_TORCH STREQUAL "ON")
      message(FATAL_ERROR "SAMEBITS_TORCH is ON but ${problem}; point SAMEBITS_PYTHON at a Python that has torch >= 2.10")
    endif()
    set(SAMEBITS_TORCH_REPORT "not built: ${problem}" PARENT_SCOPE)
    return()
  endif()

  # Used by the binding only: headers, the version the stable ABI is pinned to, and libtorch_cpu. No rpath:
  # the Python package imports torch before it loads the binding.
  add_library(torch_stable INTERFACE)
  target_include_directories(torch_stable SYSTEM INTERFACE "${include}")
  target_compile_definitions(torch_stable INTERFACE TORCH_TARGET_VERSION=0x020a000000000000ULL)
  target_link_options(torch_stable INTERFACE -Wl,--as-needed)
  target_link_libraries(torch_stable INTERFACE "${lib}/libtorch_cpu.so")
  # Empty for a torch without CUDA: then there is no CUDA module to load into it.
  set(cuda_library "")
  if(EXISTS "${lib}/libtorch_cuda.so")
    set(cuda_library "${lib}/libtorch_cuda.so")
  endif()
  set(SAMEBITS_TORCH_CUDA_LIBRARY "${cuda_library}" PARENT_SCOPE)
  set(SAMEBITS_HAS_TORCH ON PARENT_SCOPE)
  set(SAMEBITS_TORCH_PYTHON "${python}" PARENT_SCOPE)
  set(SAMEBITS_TORCH_VERSION "${version}" PARENT_SCOPE)
  set(SAMEBITS_TORCH_REPORT "built against torch ${version} (stable ABI 2.10) of ${python}" PARENT_SCOPE)
endfunction()

if(SAMEBITS_TORCH STREQUAL "OFF")
  set(SAMEBITS_TORCH_REPORT "off, as asked")
else()
  samebits_find_torch()
endif()
