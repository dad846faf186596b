/* consumer.c - the smallest program that uses an installed tcdist. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <tcdist/status.h>
#include <tcdist/version.h>

int main(void)
{
    printf("tcdist %s says %s\n", tc_version(), tc_status_string(TC_OK));
    return strlen(tc_version()) > 0 ? 0 : 1;
}
