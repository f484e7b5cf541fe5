#!/bin/sh
# Prolog of slurmd: a sick node gets no job. It drains the node with the cause as the reason and fails; Slurm requeues the job.
# In slurm.conf: Prolog=/etc/slurm/plimsoll-prolog.sh
#                PrologFlags=Alloc
#                PrologEpilogTimeout=60
#                SchedulerParameters=nohold_on_prolog_fail    (else a batch job is held)
plimsoll=${PLIMSOLL:-/usr/bin/plimsoll}
# Slurm may give it no PATH and no HOME. The history is /var/lib/plimsoll: XDG_DATA_HOME=/var/lib plimsoll run gate, three times
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}" XDG_DATA_HOME="${XDG_DATA_HOME:-/var/lib}"
line=$("$plimsoll" gate --level 1 --quiet 2> /dev/null)
code=$?
line=$(printf '%s' "$line" | head -n 1 | tr -cd '[:alnum:] .,:;()/%<>=+-' | cut -c 1-80)
# 1 is sick. Any other code says nothing against the node.
if [ "$code" -eq 1 ]; then
    # scontrol, because only it gives a reason. The reason of somebody who drained the node before stays.
    scontrol show node "$SLURMD_NODENAME" | grep -q 'State=[^ ]*DRAIN' ||
        scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason=plimsoll: $line"
    exit 1
elif [ "$code" -eq 0 ] || [ "$code" -eq 6 ]; then
    logger -t plimsoll-gate "job ${SLURM_JOB_ID:-?} starts: $line"
else
    logger -t plimsoll-gate "job ${SLURM_JOB_ID:-?} starts without a gate, which could not run, exit code $code: run $plimsoll gate by hand"
fi
exit 0
