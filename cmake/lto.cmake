# lto.cmake - link-time optimization of the shared library, and of nothing else.
# SPDX-License-Identifier: Apache-2.0
#
# A small call passes through dozens of short functions, which lie in as many files: as one unit it
# takes a ninth fewer instructions.  Each program that is linked with the static library would be
# optimized anew, and could be by that compiler alone which made it: the archive has machine code
# only, as without.  So have the kernels, which are called by tables: there is nothing to inline,
# they keep the flags of their files, and they are nearly half of what would be compiled again.

include(CheckCSourceCompiles)

# GCC alone writes machine code and its own form into one object.
set(tcdist_lto_flags -flto=auto -ffat-lto-objects)
set(tcdist_has_lto OFF)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_OBJCOPY)
    list(JOIN tcdist_lto_flags " " CMAKE_REQUIRED_FLAGS)
    check_c_source_compiles("int main(void) { return 0; }" TCDIST_GCC_LTO)
    unset(CMAKE_REQUIRED_FLAGS)
    set(tcdist_has_lto ${TCDIST_GCC_LTO})
endif()
set(tcdist_wants_lto OFF)
if(tcdist_has_lto AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TCDIST_SANITIZE)
    set(tcdist_wants_lto ON)
endif()
option(TCDIST_LTO "Optimize the shared library as one unit when it is linked" ${tcdist_wants_lto})
if(TCDIST_LTO AND NOT tcdist_has_lto)
    message(FATAL_ERROR "TCDIST_LTO=ON takes GCC with link-time optimization, and objcopy: "
        "leave it out, or say -DTCDIST_LTO=OFF in a folder that was configured before")
endif()

# Of OBJECTS, that SHARED and ARCHIVE are made of.
function(tcdist_optimize_at_link objects shared archive)
    file(GLOB kernels CONFIGURE_DEPENDS src/core/reduce_*.c src/algo/narrow*.c)
    set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-lto)
    target_compile_options(${objects} PRIVATE ${tcdist_lto_flags})
    target_link_options(${shared} PRIVATE -flto=auto)
    if(TCDIST_WERROR)
        target_link_options(${shared} PRIVATE -Werror)
    endif()
    add_custom_command(TARGET ${archive} POST_BUILD VERBATIM COMMAND ${CMAKE_OBJCOPY}
        --wildcard --remove-section=.gnu.lto_* --remove-section=.gnu.debuglto_*
        $<TARGET_FILE:${archive}>)
endfunction()
