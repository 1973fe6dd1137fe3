#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing; does nothing when all are there.
#   tools/install_packages.sh [SECTION ...]   besides the sections that every build takes, these
#   tools/install_packages.sh --list SECTION ...   installs nothing and prints the packages of these alone
set -euo pipefail
cd "$(dirname "$0")/.."

packages_of() {
  local section
  for section in "$@"; do
    grep -qxF "[$section]" packages.txt || { echo "error: packages.txt has no section [$section]" >&2; return 1; }
    sed 's/#.*//' packages.txt | awk -v wanted="[$section]" '/^\[/ { inside = $1 == wanted; next } inside && NF { print $1 }'
  done
}

if [ "${1:-}" = --list ]; then
  packages_of "${@:2}"
  exit
fi
list=$(packages_of tools libraries benchmarks "$@")
mapfile -t wanted <<<"$list"
# One question for all of them: two dozen processes take seconds on a busy machine. It fails where one is unknown.
installed=$(dpkg-query -W -f='${Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  [[ $'\n'$installed$'\n' == *$'\n'"install ok installed $package"$'\n'* ]] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "installing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: root or sudo is needed to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
