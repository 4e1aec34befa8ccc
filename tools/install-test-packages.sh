#!/usr/bin/env bash
# What the tests of GPU hosts need of the system and pip cannot bring: roots to install into, and a
# machine that boots. As root on Debian or Ubuntu it installs what is missing; elsewhere it says
# what those tests will skip, and succeeds.
set -euo pipefail

declare -A packages=([debootstrap]=debootstrap [gpg]=gnupg [ssh]=openssh-client \
  [qemu-system-x86_64]=qemu-system-x86 [qemu-img]=qemu-utils [mkfs.ext4]=e2fsprogs)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Tests of GPU hosts will be skipped; as root: apt-get install ${missing[*]}"
  exit 0
fi
echo "Installing ${missing[*]} for the tests of GPU hosts"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -qq --yes --no-install-recommends "${missing[@]}" >/dev/null ||
  echo "They could not be installed, and the tests that need them will be skipped"
