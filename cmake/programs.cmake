# programs.cmake - one program a source file or folder of tools/, examples/ and bench/.
# SPDX-License-Identifier: Apache-2.0
#
#   tools/tcrun.c           -> build/tools/tcrun
#   tools/tcperf/*.c        -> build/tools/tcperf
#   examples/digits/*.c     -> build/examples/digits
#   examples/shared/*.c     a library that all examples are linked with; tools/shared and
#                           bench/shared likewise
#   bench/latency.c         -> build/bench/latency

# Used where they are found; a program that needs one says so by its #include.
pkg_check_modules(CJSON IMPORTED_TARGET libcjson)
pkg_check_modules(ZLIB IMPORTED_TARGET zlib)

function(tcdist_add_programs folder)
    file(GLOB entries CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder} ${folder}/*)
    list(REMOVE_ITEM entries shared)
    foreach(entry IN LISTS entries)
        if(entry MATCHES "\\.c$")
            set(sources ${folder}/${entry})
        else()
            file(GLOB sources CONFIGURE_DEPENDS ${folder}/${entry}/*.c)
        endif()
        if(sources)
            cmake_path(GET entry STEM name)
            tcdist_add_program(${folder} ${name} "${sources}")
        endif()
    endforeach()
endfunction()

function(tcdist_add_shared_code)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/shared/*.c)
    add_library(examples_shared STATIC ${sources})
    target_include_directories(examples_shared PUBLIC include examples/shared)
    if(ZLIB_FOUND)
        target_link_libraries(examples_shared PUBLIC PkgConfig::ZLIB)
    endif()
endfunction()

function(tcdist_add_shared_tools)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/shared/*.c)
    add_library(tools_shared STATIC ${sources})
    target_include_directories(tools_shared PUBLIC include src tools/shared)
    if(CJSON_FOUND)
        target_link_libraries(tools_shared PUBLIC PkgConfig::CJSON)
    endif()
endfunction()

function(tcdist_add_shared_benches)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/shared/*.c)
    add_library(bench_shared STATIC ${sources})
    target_include_directories(bench_shared PUBLIC bench/shared)
endfunction()

function(tcdist_add_program folder name sources)
    set(target ${name})
    if(folder STREQUAL "bench")
        set(target bench_${name})
    endif()
    add_executable(${target} ${sources})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
    target_include_directories(${target} PRIVATE include)
    if(folder STREQUAL "examples")
        target_link_libraries(${target} PRIVATE examples_shared)
    elseif(folder STREQUAL "tools")
        target_link_libraries(${target} PRIVATE tools_shared)
    else()
        target_include_directories(${target} PRIVATE src)
        target_link_libraries(${target} PRIVATE bench_shared)
    endif()
    # What is measured beside other libraries is the one that its users have.
    set(library tcdist_static)
    if(target STREQUAL "bench_peers")
        set(library tcdist)
    endif()
    target_link_libraries(${target} PRIVATE ${library} m)
    foreach(package CJSON ZLIB)
        if(${package}_FOUND AND NOT folder STREQUAL "bench")
            target_link_libraries(${target} PRIVATE PkgConfig::${package})
        endif()
    endforeach()
    if(folder STREQUAL "tools")
        install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    endif()
endfunction()
