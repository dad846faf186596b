# need.cmake - libraries that must be there: all that are missing are told at once, with what to do.
# SPDX-License-Identifier: Apache-2.0

set(tcdist_missing "")          # names of what is missing
set(tcdist_missing_packages "") # where Debian has it

# A module of pkg-config, as ${prefix}_… and PkgConfig::${prefix}.
macro(tcdist_need prefix module package)
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${module})
    if(NOT ${prefix}_FOUND)
        list(APPEND tcdist_missing ${module})
        list(APPEND tcdist_missing_packages ${package})
    endif()
endmacro()

# A header that belongs to no module.
macro(tcdist_need_header header package)
    find_path(tcdist_path_of_${header} ${header})
    mark_as_advanced(tcdist_path_of_${header})
    if(NOT tcdist_path_of_${header})
        list(APPEND tcdist_missing ${header})
        list(APPEND tcdist_missing_packages ${package})
    endif()
endmacro()

function(tcdist_tell_missing)
    if(NOT tcdist_missing)
        return()
    endif()
    list(JOIN tcdist_missing ", " names)
    list(JOIN tcdist_missing_packages " " packages)
    set(hint "")
    if("cmocka" IN_LIST tcdist_missing)
        set(hint "\nOnly the tests need cmocka: -DTCDIST_TESTS=OFF does without.")
    endif()
    message(FATAL_ERROR "Not found: ${names}\n"
        "On Debian and Ubuntu install what is missing by\n"
        "    sudo apt-get install ${packages}\n"
        "and configure again.${hint}")
endfunction()
