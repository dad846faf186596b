# doxygen_headings.sed - headings without backticks, which Doxygen would show as <tt>.
# SPDX-License-Identifier: Apache-2.0
/^##* /s|`||g
