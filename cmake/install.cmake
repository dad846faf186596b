# install.cmake - what `cmake --install` puts where, and how other builds find it.
# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tcdist)

# Components: runtime, dev, tools; each a package (package.cmake).
install(TARGETS tcdist tcdist_static EXPORT tcdist
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY include/tcdist DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.h")

install(EXPORT tcdist FILE tcdistTargets.cmake NAMESPACE tcdist:: DESTINATION ${config_dir}
        COMPONENT dev)
configure_package_config_file(cmake/tcdistConfig.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/tcdistConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tcdistConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/tcdistConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/tcdistConfigVersion.cmake
    DESTINATION ${config_dir} COMPONENT dev)

# The prefix is found from where the file lies, so an installed tree may be moved.
file(RELATIVE_PATH pc_to_prefix
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
# By name, and not as packages that are required: who links the shared library needs none of them.
set(pc_private ${LIBEVENT_LIBRARIES} ${LIBSODIUM_LIBRARIES} ${CJSON_LIBRARIES} ${IBVERBS_LIBRARIES}
    ${HIREDIS_LIBRARIES})
list(TRANSFORM pc_private PREPEND "-l")
list(JOIN pc_private " " pc_private)
configure_file(cmake/tcdist.pc.in ${CMAKE_CURRENT_BINARY_DIR}/tcdist.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tcdist.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

foreach(section 1 3 5 7)
    file(GLOB pages CONFIGURE_DEPENDS docs/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT tools)
endforeach()

# Completions of bash are named as the tool; a unit of systemd is a template.
# One file knows all tools; bash looks for it under the name of each.
foreach(tool tcconfig tcdoctor tcdump tcinfo tcperf tcrun tcstat)
    install(FILES tools/completion/tcdist.bash RENAME ${tool} COMPONENT tools
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
file(GLOB units CONFIGURE_DEPENDS examples/systemd/*.service examples/systemd/*.target)
install(FILES ${units} DESTINATION lib/systemd/system COMPONENT tools)

install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev
        PATTERN systemd EXCLUDE) # the tools have them where systemd looks
include(cmake/package.cmake)
