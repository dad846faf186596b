# doxygen_filter.sed - makes Doxygen read the plain comments of the headers.
# SPDX-License-Identifier: Apache-2.0
1 s|^/\* \([a-z_]*\.h\) - |/** @file tcdist/\1\n * |
2 s|^/\* SPDX.*||
s|^\( *\)/\* \(.*\)|\1/** \2|
s|\([;,{a-z0-9_]\)\( *\)/\*\*\{0,1\} |\1\2/**< |
s|^\(#define.*[^ ]\)\( *\)/\* |\1\2/**< |
s|^\( *[A-Z][A-Z0-9_]* *=* *-*[0-9]*\)\( *\)/\*\*\{0,1\} |\1\2/**< |
s|^#define TC_API .*||
s|^#define TC_\(BEGIN\|END\)_DECLS.*||
s|^#define TC_API$||
