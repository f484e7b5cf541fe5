#!/bin/sh
# Epilog (or Prolog) of slurmd: drains a node whose memory has become slow, with the figure as the reason.
# In slurm.conf: Epilog=/etc/slurm/plimsoll-epilog.sh, and PrologEpilogTimeout=60. Set the bound from a good node of the
# same kind: plimsoll run quick --only memory.bandwidth
plimsoll=${PLIMSOLL:-/usr/bin/plimsoll}
bound=${PLIMSOLL_BOUND:-memory.bandwidth bandwidth >= 20 GB/s}

# Slurm may give Prolog and Epilog no PATH.
export PATH="${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}"
why=$(timeout 50 "$plimsoll" run quick --only memory.bandwidth --samples 5 --budget 20s --store none --quiet \
    --require "$bound" 2>&1 > /dev/null)
# 1 says that a figure does not meet the bound. Any other code says that it is not known: that drains no node.
if [ "$?" -eq 1 ]; then
    why=$(printf '%s' "$why" | head -n 1 | tr -cd '[:alnum:] .,:;/%<>=+-' | cut -c 1-200)
    scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason=$why"
fi
exit 0
