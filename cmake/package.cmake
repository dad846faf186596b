# package.cmake - Debian packages: libtcdist0, libtcdist-dev, tcdist-tools; made by `cpack`.
# SPDX-License-Identifier: Apache-2.0

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tcdist)
set(CPACK_PACKAGE_VENDOR "tcdist developers")
set(CPACK_PACKAGE_CONTACT "tcdist developers <tcdist@localhost>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)

set(CPACK_COMPONENTS_ALL runtime dev tools)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)

# The so-name is in the name, so that two of them can be installed.
set(runtime libtcdist${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION
    "Moves tensors between processes. This package has the shared library.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS_POLICY "=")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtcdist-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
string(CONCAT CPACK_DEBIAN_DEV_DESCRIPTION
    "Moves tensors between processes. This package has headers, the static library,\n"
    " and what pkg-config and CMake need.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${runtime} (= ${PROJECT_VERSION}-1)")
# To link statically.
string(CONCAT CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS
    "libevent-dev, libsodium-dev, libcjson-dev, libibverbs-dev, libhiredis-dev")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME tcdist-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
string(CONCAT CPACK_DEBIAN_TOOLS_DESCRIPTION
    "Moves tensors between processes. This package has the launcher, the tools with\n"
    " their manual pages, and templates of units for systemd.")

# Debian looks for the licence of each package under the name of the package.
foreach(component runtime dev tools)
    string(TOUPPER ${component} upper)
    install(FILES LICENSE RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()

include(CPack)
