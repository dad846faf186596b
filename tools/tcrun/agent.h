/* agent.h - tcrun on another host: starts ranks as it is told to, and watches over them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TCRUN_AGENT_H
#define TCRUN_AGENT_H

/* Speaks tunnel.h over standard input and output until all ranks have ended; takes them along when
 * tcrun is gone, or silent for so long (0: however long).  Returns an exit code. */
int agent_run(unsigned beat_ms);

#endif
