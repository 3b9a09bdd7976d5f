# install, export and the package files behind find_package(samebits).
include(GNUInstallDirs)
set(SAMEBITS_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/samebits)
