#!/bin/bash
# Runs a command in a container: a file tree of its own, made of folders of this machine, with its own /proc, /dev and /tmp.
#   container.sh USER FOLDER... -- COMMAND...
# USER is "root", which is root in a user namespace alone, in a network of its own; or the name of a real user.
# It runs in the folder in which this was called, which must be one of the tree. All it leaves is gone with it.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

if [ "${INSIDE:-}" = "" ]; then
    kinds=(--mount --pid)
    [ "$1" = root ] && kinds+=(--user --map-root-user --net --ipc --uts)
    INSIDE=yes exec unshare "${kinds[@]}" --fork --kill-child "$BASH" "$0" "$@"
fi

user=$1 && shift
place=$PWD
# What lies below the place of the tree is hidden from here on: nothing that the container is made of may (a clone in /tmp).
for tree in /mnt /srv /media /tmp; do
    hidden=
    for folder in "$@"; do
        [ "$folder" = -- ] && break
        case $folder/ in "$tree"/*) hidden=yes ;; esac
    done
    [ -d "$tree" ] && [ ! "$hidden" ] && break
done
mount -t tmpfs -o mode=755 tmpfs "$tree"
# Before the folders, for the same reason: one of them may lie in /tmp.
mkdir "$tree/tmp"
mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"

bound() {
    mount --rbind "$1" "$tree$1"
    mount -o remount,bind,ro "$tree$1"
}

while [ "$1" != -- ]; do
    if [ -L "$1" ]; then
        ln -s "$(readlink "$1")" "$tree$1"
    elif [ -d "$1" ]; then
        mkdir -p "$tree$1"
        bound "$1"
    fi
    shift
done
shift

mkdir -p "$tree"/{proc,sys,dev/shm,old}
mount -t proc proc "$tree/proc"
mount -t sysfs -o ro sysfs "$tree/sys"
mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
for device in null zero full random urandom; do
    touch "$tree/dev/$device"
    mount --bind "/dev/$device" "$tree/dev/$device"
done
ln -s /proc/self/fd "$tree/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${number%%:*}" "$tree/dev/${number#*:}"
done

cd "$tree"
pivot_root . old
umount -l /old
cd "$place"
export HOME=/tmp TMPDIR=/tmp
unset INSIDE
if [ "$user" = root ]; then
    ip link set lo up
    "$@"
else
    setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --inh-caps=-all "$@"
fi
