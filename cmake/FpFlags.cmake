# The floating-point environment of the bit contract, in one target that everything that computes links.
# GCC contracts a*b+c into fma by default for C++; that alone would change bits from one ISA to the next.
add_library(samebits_fp INTERFACE)
target_compile_options(samebits_fp INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-fast-math>)

# Flags from the user come after ours on no compiler's promise, so the dangerous ones are refused here.
function(samebits_reject_flags variable)
  foreach(flag -ffast-math -Ofast -funsafe-math-optimizations -fassociative-math -freciprocal-math
               -ffinite-math-only -fno-signed-zeros -ffp-contract=fast -ffp-contract=on -ffp-model=fast
               -mfpmath=387 -march=native -mcpu=native --use_fast_math -use_fast_math)
    string(FIND " ${${variable}} " "${flag}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${variable} contains ${flag}, which would change the bits samebits promises; remove it")
    endif()
  endforeach()
endfunction()

foreach(language CXX C CUDA)
  samebits_reject_flags(CMAKE_${language}_FLAGS)
  foreach(config DEBUG RELEASE RELWITHDEBINFO MINSIZEREL)
    samebits_reject_flags(CMAKE_${language}_FLAGS_${config})
  endforeach()
endforeach()
get_directory_property(samebits_directory_options COMPILE_OPTIONS)
samebits_reject_flags(samebits_directory_options)
