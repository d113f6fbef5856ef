#!/usr/bin/env bash
# Installs what `.ci/package TARGET` has made on other systems, as root, and watches a program there: `tests/packages.sh`. They are Debian 11
# with the .deb, a root with nothing but musl, one with nothing but busybox, and a virtual environment of Python with the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$PWD/target/packages work=$PWD/target/packages-tried
rm -rf "$work"
mkdir -p "$work"
cat > "$work/burn.c" <<- 'C'
	__attribute__((noinline)) static void burn(void) { for (volatile long i = 0; i < 2000000000; i++) {} }
	int main(void) { burn(); return 0; }
C
# shellcheck disable=SC2016 # A shell in another root expands it.
loop='i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'

# Runs a command, and expects samples of a function in the table that it prints.
expect() {
    local name=$1 function=$2
    shift 2
    "$@" > "$work/$name.txt" 2>&1 || { cat "$work/$name.txt"; return 1; }
    echo "── $name"
    head -6 "$work/$name.txt"
    grep -q '^Samples: [1-9]' "$work/$name.txt" && grep -q " $function\$" "$work/$name.txt"
}

# Runs a command in another root directory, with /proc.
in_root() {
    mount -t proc proc "$1/proc"
    local status=0
    chroot "$@" || status=$?
    umount "$1/proc"
    return "$status"
}

root=$work/debian-11
debootstrap --variant=minbase bullseye "$root" > "$work/debootstrap.txt"
cp "$packages"/*.deb "$root/"
chroot "$root" sh -c 'dpkg -i /*.deb' > /dev/null
test -s "$root/usr/share/man/man1/sigtop.1.gz"
expect debian-11 '[^ ]*' in_root "$root" sigtop --no-config -- sh -c "$loop"

for root in "$work/musl" "$work/busybox"; do
    mkdir -p "$root"/{bin,dev,lib,proc,tmp}
    mknod -m 666 "$root/dev/null" c 1 3
    tar -xzf "$packages"/*.tar.gz -C "$root" --strip-components=1
done
root=$work/musl
cp -L "/lib/ld-musl-$(uname -m).so.1" "$root/lib/"
musl-gcc -O1 -o "$root/burn" "$work/burn.c"
expect musl burn in_root "$root" /bin/sigtop --no-config -- /burn
expect musl-with-agent burn in_root "$root" /bin/sigtop --no-config --engine threads -- /burn
root=$work/busybox
cp "$(command -v busybox)" "$root/bin/"
expect busybox '[^ ]*' in_root "$root" /bin/sigtop --no-config -- /bin/busybox sh -c "$loop"

python3 -m venv "$work/python"
"$work/python/bin/pip" install -q --no-index "$packages"/*.whl
gcc -O1 -o "$work/burn" "$work/burn.c"
expect wheel burn "$work/python/bin/sigtop" --no-config -- "$work/burn"
expect demo 'sigtop::app::demo_target::json::parse_value' \
    timeout 60 "$work/python/bin/sigtop" demo --no-config --batch --on-quit end --interval 2s --count 1
size=$(stat -c %s "$work/python/bin/sigtop")
[ "$size" -le $((12 << 20)) ] || { echo "the program has $size bytes, more than 12 MiB"; exit 1; }
echo "── all packages work"
