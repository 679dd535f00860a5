# `cmake --install`: the program, the public headers, and the library as the CMake package `ullage`, whose target is
# ullage::ullage.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY ULLAGE_LIBRARIES)
list(REMOVE_ITEM libraries ullage_apps)
target_include_directories(ullage_api INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(ullage_api INTERFACE cxx_std_20)
set_target_properties(ullage_api PROPERTIES EXPORT_NAME ullage)

install(TARGETS ${libraries} EXPORT ullage-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/ullage)
install(TARGETS ullage RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ullage DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ullage-targets NAMESPACE ullage:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ullage)
write_basic_package_version_file(ullage-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_SOURCE_DIR}/cmake/ullage-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/ullage-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ullage)
