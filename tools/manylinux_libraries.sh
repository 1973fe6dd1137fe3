#!/usr/bin/env bash
# What the build needs inside of cibuildwheel's image manylinux_2_28 (AlmaLinux 8): the system's packages, and from source, in
# Debian 12's versions, what it does not have. Licences of the latter go where tools/wheel_licences.py looks for them. Untested.
set -euo pipefail
dnf -y install epel-release
dnf -y install --enablerepo=powertools ninja-build libicu-devel nettle-devel zlib-devel libpng-devel turbojpeg-devel yaml-cpp-devel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME URL LIBRARY CMAKE_OPTIONS...: LIBRARY is the name up to ".so", or - for headers only. These versions are older than the
# image's tools: CMake 4 takes their minimum versions only when told so, and GCC 13 and later include <cstdint> nowhere by chance.
build() {
  local name=$1 url=$2 library=$3
  mkdir "$work/$name"
  curl -fsSL "$url" | tar -xz --strip-components 1 -C "$work/$name"
  cmake -S "$work/$name" -B "$work/$name/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_CXX_FLAGS="-include cstdint" "${@:4}"
  cmake --build "$work/$name/build"
  cmake --install "$work/$name/build"
  [ "$library" = - ] || install -D -t "/usr/local/share/licenses/$library" "$work/$name"/LICENSE*
}
build onednn https://github.com/oneapi-src/oneDNN/archive/refs/tags/v2.6.3.tar.gz libdnnl -DDNNL_BUILD_TESTS=OFF -DDNNL_BUILD_EXAMPLES=OFF
build highway https://github.com/google/highway/archive/refs/tags/1.0.3.tar.gz libhwy -DBUILD_TESTING=OFF -DHWY_ENABLE_EXAMPLES=OFF
build fmt https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz libfmt -DFMT_TEST=OFF
build cli11 https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz - -DCLI11_BUILD_TESTS=OFF -DCLI11_BUILD_EXAMPLES=OFF
build json https://github.com/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz - -DJSON_BuildTests=OFF
build sentencepiece https://github.com/google/sentencepiece/archive/refs/tags/v0.1.97.tar.gz libsentencepiece
cp -r /usr/local/share/licenses/libsentencepiece /usr/local/share/licenses/libsentencepiece_train
ldconfig
