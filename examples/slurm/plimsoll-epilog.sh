#!/bin/sh
# Epilog of slurmd: after each job a gate of up to 2 minutes; a sick node is drained with the cause as the reason.
# In slurm.conf: Epilog=/etc/slurm/plimsoll-epilog.sh
#                PrologEpilogTimeout=180
plimsoll=${PLIMSOLL:-/usr/bin/plimsoll}
# Slurm may give it no PATH and no HOME. The history is /var/lib/plimsoll: XDG_DATA_HOME=/var/lib plimsoll run quick, three times
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}" XDG_DATA_HOME="${XDG_DATA_HOME:-/var/lib}"
line=$("$plimsoll" gate --level 2 --quiet 2> /dev/null)
code=$?
# 1 is sick. Any other code says nothing against the node.
if [ "$code" -eq 1 ]; then
    line=$(printf '%s' "$line" | head -n 1 | tr -cd '[:alnum:] .,:;()/%<>=+-' | cut -c 1-80)
    # scontrol, because only it gives a reason. The reason of somebody who drained the node before stays.
    scontrol show node "$SLURMD_NODENAME" | grep -q 'State=[^ ]*DRAIN' ||
        scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason=plimsoll: $line"
elif [ "$code" -ne 0 ] && [ "$code" -ne 6 ]; then
    logger -t plimsoll-gate "it could not run, exit code $code: run $plimsoll gate by hand"
fi
exit 0
