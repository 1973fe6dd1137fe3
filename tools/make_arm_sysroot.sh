#!/usr/bin/env bash
# Unpacks Debian's arm64 packages of what Snug is linked with, and what they depend on, into build/arm-sysroot; does nothing when they
# are there. Nothing foreign is installed: apt has lists, a cache and a record of installed packages (none) of its own under build/arm-apt,
# and takes the system's sources and keys alone.
set -euo pipefail
cd "$(dirname "$0")/.."
sysroot=build/arm-sysroot
apt=$PWD/build/arm-apt
list=$(tools/install_packages.sh --list libraries)
# Written last. Another list of packages makes the folder anew.
[ "$(cat "$sysroot/packages.txt" 2>/dev/null)" = "$list" ] && exit 0
mapfile -t packages <<<"$list"

echo "unpacking arm64 packages into $sysroot"
rm -rf "$sysroot" "$apt/cache/archives"
mkdir -p "$sysroot" "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/state/status"
# The user of the sandbox may not be able to write here, and nobody needs to be root.
own_apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User="$(id -un)"
  -o Dir::State="$apt/state" -o Dir::State::status="$apt/state/status" -o Dir::Cache="$apt/cache")
"${own_apt[@]}" update
"${own_apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null
for archive in "$apt"/cache/archives/*.deb; do
  dpkg-deb -x "$archive" "$sysroot"
done
# Links to absolute names would lead out of the folder.
find "$sysroot" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
  ln -sfnr "$sysroot$target" "$link"
done
rm -rf "$apt"
printf '%s\n' "$list" >"$sysroot/packages.txt"
