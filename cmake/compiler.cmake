# compiler.cmake - the language, the warnings and the sanitizers that every target is built with.
# SPDX-License-Identifier: Apache-2.0

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

# The library itself is compiled with POSIX alone where it is to need no more (cmake/system.cmake).
add_compile_definitions(
    $<IF:$<BOOL:$<TARGET_PROPERTY:TCDIST_IS_POSIX>>,_POSIX_C_SOURCE=200809L,_GNU_SOURCE>)

# A fused multiply-add rounds once where the source rounds twice: results are promised bit for bit,
# so no compiler may contract.
add_compile_options(-ffp-contract=off -g)

add_compile_options(
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -Wpointer-arith -Wwrite-strings -Wundef)
if(TCDIST_WERROR)
    add_compile_options(-Werror)
endif()

if(TCDIST_SANITIZE)
    add_compile_options(
        -fsanitize=${TCDIST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${TCDIST_SANITIZE})
endif()

if(TCDIST_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
