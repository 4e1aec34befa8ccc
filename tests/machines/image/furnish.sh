#!/bin/sh
# Makes a bare Debian root a machine; runs inside it, with /proc there. Leaves in /furnished what the
# tests must know: kernel releases, package versions with their hashes, the newer kernel's package.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
cd /furnishing

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d
install() { apt-get install --quiet --yes --no-install-recommends "$@"; }
apt-get update --quiet
# Two kernels of one series: the machine runs the older, the newer is for upgrades.
releases=$(apt-cache pkgnames linux-headers-6.1.0- | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 2)
kernel=$(echo "$releases" | head -n 1)
newer=$(echo "$releases" | tail -n 1)
[ "$kernel" != "$newer" ]
install "linux-image-$kernel" "linux-headers-$kernel" dkms gcc gcc-12 libc6-dev make \
  grub2-common grub-pc-bin lz4 openssh-server pciutils iproute2

# The bus of GPUs and the stand-in for nouveau, for both kernels.
mkdir -p /usr/local/lib/phantom-gpus /furnished/nouveau /tmp/newer
(cd /tmp/newer && apt-get download --quiet "linux-headers-$newer" \
  "linux-headers-${newer%-cloud-amd64}-common" && for deb in *.deb; do dpkg-deb -x "$deb" .; done)
cp -a "/tmp/newer/usr/src/." /usr/src/
for release in "$kernel" "$newer"; do
  make -C "/usr/src/linux-headers-$release" M=/furnishing/modules modules
  strip --strip-debug modules/*.ko
  cp modules/phantom_gpus.ko "/usr/local/lib/phantom-gpus/$release.ko"
  cp modules/nouveau.ko "/furnished/nouveau/$release.ko"
  make -C "/usr/src/linux-headers-$release" M=/furnishing/modules clean
done
rm -rf "/usr/src/linux-headers-$newer" "/usr/src/linux-headers-${newer%-cloud-amd64}-common" /tmp/newer
cp "/furnished/nouveau/$kernel.ko" "/lib/modules/$kernel/kernel/drivers/nouveau.ko"
depmod "$kernel"

cp -a tree/. /
chown -R 0:0 /etc
systemctl enable phantom-gpus.service wire.service kubelet.service ssh.service
systemctl mask networking.service getty@tty1.service serial-getty@ttyS0.service \
  e2scrub_reap.service e2scrub_all.timer fstrim.timer dpkg-db-backup.timer \
  apt-daily.timer apt-daily-upgrade.timer systemd-tmpfiles-clean.timer \
  systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-pstore.service \
  systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-sysusers.service \
  modprobe@configfs.service modprobe@fuse.service modprobe@loop.service modprobe@dm_mod.service \
  modprobe@efi_pstore.service modprobe@drm.service sys-kernel-debug.mount \
  sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount
mkdir -p /boot/grub /root/.ssh
cp -r /usr/lib/grub/i386-pc /boot/grub/
chmod 0700 /root/.ssh
cp key.pub /root/.ssh/authorized_keys
# What a machine without screen, sleep and logical volumes does not need in its initial RAM disk,
# which is made on it a few times.
(cd /usr/share/initramfs-tools/hooks && chmod a-x dmsetup fsck keymap resume thermal)
update-initramfs -c -k "$kernel"

# GRUB runs early.cfg line by line, without "if": where the machine has no grub.cfg yet, configfile
# fails and the lines after it start the kernel that the distribution's links name.
grub-mkimage --format=i386-pc --prefix=/boot/grub --config=early.cfg --output=/tmp/core.img \
  biosdisk ext2 search search_label configfile linux normal test echo loadenv part_msdos gzio sleep
cat /usr/lib/grub/i386-pc/boot.img /tmp/core.img >/furnished/loader.img
truncate -s 1M /furnished/loader.img
rm /tmp/core.img

cd /furnished
apt-get download --quiet "linux-image-$newer"
# The same package without compression, which takes a minute to undo in emulation.
dpkg-deb --raw-extract linux-image-*.deb newer
dpkg-deb --root-owner-group -Znone --build newer newer-kernel.deb
rm -r linux-image-*.deb newer
echo "$kernel" >kernel
echo "$newer" >newer-kernel
for name in "linux-image-$kernel" "linux-headers-$kernel" "linux-headers-${kernel%-cloud-amd64}-common" \
  linux-kbuild-6.1 gcc-12 cpp-12 dkms; do
  version=$(dpkg-query --show --showformat='${Version}' "$name")
  sum=$(apt-cache show "$name=$version" | sed -n 's/^SHA256: //p' | head -n 1)
  echo "$name $version $sum"
done >packages
cp /etc/ssh/ssh_host_ed25519_key.pub host-key.pub

# The machine reaches no repository but that of the tests.
: >/etc/apt/sources.list
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /usr/sbin/policy-rc.d /usr/share/doc/* \
  /usr/share/locale/* /usr/share/man/*
