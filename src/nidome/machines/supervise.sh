#!/bin/sh
# Keeps one host running: joins the host's cgroups, mounts its disk where nobody else sees it, starts nspawn,
# and starts it again when the host reboots. All mounts are in this process's own mount namespace, so they
# are gone when the last process of the host is, however it ended.
#
# NIDOME_KEEPER, NIDOME_GUEST  cgroup directories, separated by spaces, for this process and for nspawn
# NIDOME_DELEGATED             "yes" where systemd made the group and the keeper's leaf is still to be made
# NIDOME_DISK                  options of the overlay mount
# NIDOME_ROOT                  where the overlay is mounted
# $@                           the nspawn command
set -eu

join() {
    for group in $2; do
        echo "$1" >"$group/cgroup.procs"
    done
}

if [ "$NIDOME_DELEGATED" = yes ]; then
    for group in $NIDOME_KEEPER; do
        [ -d "$group" ] || mkdir "$group"
    done
fi
# Fails, and ends this process, when the host was removed before it got this far.
join $$ "$NIDOME_KEEPER"

if [ "${1-}" != --inside ]; then
    exec unshare --mount --propagation private -- /bin/sh "$0" --inside "$@"
fi
shift

# nspawn puts its own things there, and what it leaves behind must not stay on this machine.
mount -t tmpfs -o mode=755 tmpfs /run/systemd
mount -t overlay -o "$NIDOME_DISK" overlay "$NIDOME_ROOT"

status=133
while [ "$status" -eq 133 ]; do # 133: the host asked for a reboot
    status=0
    (
        join 0 "$NIDOME_GUEST"
        exec "$@"
    ) || status=$?
done
exit "$status"
