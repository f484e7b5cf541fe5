#!/bin/sh
# Prolog of slurmd: a sick node gets no job. It drains the node with the cause as the reason and fails; Slurm requeues the job.
# In slurm.conf: Prolog=/etc/slurm/plimsoll-prolog.sh
#                PrologFlags=Alloc
#                PrologEpilogTimeout=60
#                SchedulerParameters=nohold_on_prolog_fail    (else a batch job is held)
plimsoll=${PLIMSOLL:-/usr/bin/plimsoll}
# Slurm may give it no PATH and no HOME. The history is /var/lib/plimsoll/history.db: XDG_DATA_HOME=/var/lib plimsoll run gate
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}" XDG_DATA_HOME="${XDG_DATA_HOME:-/var/lib}"
line=$("$plimsoll" gate --level 1 --format npd --quiet 2> /dev/null)
# 1 is sick. Any other code says nothing against the node.
if [ "$?" -eq 1 ]; then
    line=$(printf '%s' "$line" | head -n 1 | tr -cd '[:alnum:] .,:;()/%<>=+-' | cut -c 1-80)
    # The reason of somebody who drained it before stays.
    scontrol show node "$SLURMD_NODENAME" | grep -q 'State=[^ ]*DRAIN' ||
        scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason=plimsoll: $line"
    exit 1
fi
exit 0
