# Warnings and sanitizers, on top of the floating-point flags. Private to our own targets.
add_library(samebits_flags INTERFACE)
target_link_libraries(samebits_flags INTERFACE samebits_fp)
target_compile_options(samebits_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: false alarm on std::string's operator+ with a short literal.
  target_compile_options(samebits_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Clang does not fold __builtin_fma in constant expressions; order/ only uses it there under GCC.
  target_compile_options(samebits_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-invalid-constexpr>)
endif()
if(SAMEBITS_WERROR)
  target_compile_options(samebits_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(SAMEBITS_SANITIZE)
  target_compile_options(samebits_flags INTERFACE
    -fsanitize=${SAMEBITS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(samebits_flags INTERFACE -fsanitize=${SAMEBITS_SANITIZE})
endif()
