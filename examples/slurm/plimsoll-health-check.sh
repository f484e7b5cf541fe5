#!/bin/sh
# HealthCheckProgram of slurmd: drains a node that is sick, with the cause as the reason. Slurm ends it after 60 s; level 1 takes 15.
# In slurm.conf: HealthCheckProgram=/etc/slurm/plimsoll-health-check.sh
#                HealthCheckInterval=3600
#                HealthCheckNodeState=IDLE
plimsoll=${PLIMSOLL:-/usr/bin/plimsoll}
# Slurm may give it no PATH and no HOME. The history is /var/lib/plimsoll: XDG_DATA_HOME=/var/lib plimsoll run gate, three times
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}" XDG_DATA_HOME="${XDG_DATA_HOME:-/var/lib}"
node=${SLURMD_NODENAME:-$(hostname -s)}
line=$("$plimsoll" gate --level 1 --quiet 2> /dev/null)
code=$?
# 1 is sick. Any other code says nothing against the node.
if [ "$code" -eq 1 ]; then
    line=$(printf '%s' "$line" | head -n 1 | tr -cd '[:alnum:] .,:;()/%<>=+-' | cut -c 1-80)
    # scontrol, because only it gives a reason. The reason of somebody who drained the node before stays.
    scontrol show node "$node" | grep -q 'State=[^ ]*DRAIN' ||
        scontrol update "NodeName=$node" State=DRAIN "Reason=plimsoll: $line"
elif [ "$code" -ne 0 ] && [ "$code" -ne 6 ]; then
    logger -t plimsoll-gate "it could not run, exit code $code: run $plimsoll gate by hand"
fi
exit 0
