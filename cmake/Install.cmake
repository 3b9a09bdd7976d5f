# install, export and the package behind find_package(samebits). A wheel is the same tree in another place: everything
# of C++ goes to the package samebits_native (importable without torch), the torch module beside the Python files.
include(CMakePackageConfigHelpers)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/samebits)

install(TARGETS samebits EXPORT samebits
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/samebits ${PROJECT_BINARY_DIR}/generated/include/samebits
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT samebits NAMESPACE samebits:: FILE samebits-targets.cmake DESTINATION ${cmake_dir})

if(TARGET samebits_cuda)
  # An export set of its own: who only wants the CPU library needs no CUDA toolkit.
  install(TARGETS samebits_cuda EXPORT samebits_cuda ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT samebits_cuda NAMESPACE samebits:: FILE samebits-cuda-targets.cmake DESTINATION ${cmake_dir})
  export(EXPORT samebits_cuda NAMESPACE samebits:: FILE samebits-cuda-targets.cmake)
endif()

configure_package_config_file(cmake/samebits-config.cmake.in samebits-config.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(samebits-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/samebits-config.cmake ${PROJECT_BINARY_DIR}/samebits-config-version.cmake
  DESTINATION ${cmake_dir})
export(EXPORT samebits NAMESPACE samebits:: FILE samebits-targets.cmake)

if(TARGET samebits_cli)
  install(TARGETS samebits_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(DEFINED SKBUILD)
  # The wheel carries its own libhwy, so the machine that runs it needs no system package.
  install(IMPORTED_RUNTIME_ARTIFACTS hwy::hwy LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(TARGET samebits_cli)
    set_target_properties(samebits_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  endif()
  install(FILES ${PROJECT_BINARY_DIR}/python/samebits/_version.py DESTINATION ${SKBUILD_PLATLIB_DIR}/samebits)
  if(TARGET samebits_torch)
    set_target_properties(samebits_torch PROPERTIES INSTALL_RPATH "$ORIGIN/../samebits_native/${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS samebits_torch LIBRARY DESTINATION ${SKBUILD_PLATLIB_DIR}/samebits)
  endif()
  if(TARGET samebits_torch_cuda)
    set_target_properties(samebits_torch_cuda PROPERTIES
      INSTALL_RPATH "$ORIGIN/../samebits_native/${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS samebits_torch_cuda LIBRARY DESTINATION ${SKBUILD_PLATLIB_DIR}/samebits)
  endif()
endif()
