#!/bin/sh
# Prolog of slurmd: a sick node gets no job. Slurm drains a node whose prolog ends with any code but 0, and requeues the job.
# In slurm.conf: Prolog=/etc/slurm/plimsoll-prolog.sh
#                PrologFlags=Alloc
#                PrologEpilogTimeout=60
plimsoll=${PLIMSOLL:-/usr/bin/plimsoll}
line=$("$plimsoll" gate --level 1 --format npd --quiet 2> /dev/null)
# 1 is sick. Any other code says nothing against the node.
if [ "$?" -eq 1 ]; then
    logger -t plimsoll "$line"
    exit 1
fi
exit 0
