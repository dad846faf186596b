# places.cmake - libraries for some of the places where ranks meet; each may be missing.
# SPDX-License-Identifier: Apache-2.0
#
# hiredis is linked; libcurl and PMIx, which bring dozens of libraries with them, are loaded by the
# processes that need them, so that only their headers are looked at here.

pkg_check_modules(HIREDIS hiredis)
pkg_check_modules(CURL libcurl)
pkg_check_modules(PMIX pmix)
option(TCDIST_REDIS "Ranks may meet at a Redis server, by hiredis" ${HIREDIS_FOUND})
option(TCDIST_ETCD "Ranks may meet at etcd, by libcurl and cJSON" ${CURL_FOUND})
option(TCDIST_PMIX "Ranks may meet by PMIx: of prun, of mpirun on several hosts" ${PMIX_FOUND})

if(TCDIST_REDIS AND NOT HIREDIS_FOUND)
    message(FATAL_ERROR "TCDIST_REDIS needs hiredis (libhiredis-dev): it is not found")
endif()
if(TCDIST_ETCD AND NOT (CURL_FOUND AND CJSON_FOUND))
    message(FATAL_ERROR "TCDIST_ETCD needs libcurl (libcurl4-openssl-dev) and cJSON (libcjson-dev)")
endif()
if(TCDIST_PMIX AND NOT PMIX_FOUND)
    message(FATAL_ERROR "TCDIST_PMIX needs PMIx (libpmix-dev): it is not found")
endif()

# Sets the include path and what says that it is there, for the one file that uses it.
function(tcdist_place is_wanted file macro)
    if(is_wanted)
        set_source_files_properties(${file} PROPERTIES
            COMPILE_DEFINITIONS ${macro} INCLUDE_DIRECTORIES "${ARGN}")
    endif()
endfunction()
tcdist_place("${TCDIST_REDIS}" src/meet/redis.c TCI_HAS_HIREDIS ${HIREDIS_INCLUDE_DIRS})
tcdist_place("${TCDIST_ETCD}" src/meet/etcd.c TCI_HAS_CURL ${CURL_INCLUDE_DIRS})
tcdist_place("${TCDIST_PMIX}" src/meet/pmix.c TCI_HAS_PMIX ${PMIX_INCLUDE_DIRS})
if(NOT TCDIST_REDIS)
    set(HIREDIS_LIBRARIES "")
    set(HIREDIS_LIBRARY_DIRS "")
    set(HIREDIS_MODULE_NAME "")
endif()
