# find_package(ullage): the target ullage::ullage, and what its static libraries need.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(nlohmann_json)
find_dependency(hwy)
find_dependency(PkgConfig)
pkg_check_modules(PCRE2 REQUIRED QUIET IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED QUIET IMPORTED_TARGET libutf8proc)
include(${CMAKE_CURRENT_LIST_DIR}/ullage-targets.cmake)
