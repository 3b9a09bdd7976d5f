# samebits_cuda_archs(out asked): the architectures of the list `asked`, in which `native` stands for those of this
# machine's GPUs. CMake itself would resolve the word too late: which kernels are built is decided by the list.
function(samebits_cuda_archs out asked)
  if(asked STREQUAL "native")
    set(asked "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")  # set by enable_language(CUDA); words where there is no GPU
    if(NOT asked MATCHES "^[0-9]")
      message(FATAL_ERROR "SAMEBITS_CUDA_ARCHS is native, but no GPU was found here (\"${asked}\"); name the "
        "architectures instead, such as 90-real")
    endif()
  endif()
  set(${out} "${asked}" PARENT_SCOPE)
endfunction()

# samebits_cuda_has_sm90(out archs): whether the kernels that exist in the machine code of sm_90a alone are built.
function(samebits_cuda_has_sm90 out archs)
  list(FILTER archs INCLUDE REGEX "^90a?(-real|-virtual)?$")
  if(archs)
    set(${out} ON PARENT_SCOPE)
  else()
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()
