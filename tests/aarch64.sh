#!/usr/bin/env bash
# Builds sigtop for aarch64 and records programs there, on an arm64 kernel in an emulator: `tests/aarch64.sh [WORK]`. What is recorded there
# is read here, too. The packages are those of `.ci/packages-aarch64`; kernel and root directory come from Debian and are kept in WORK.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(realpath -m "${1:-target/aarch64}") suite=bookworm target=aarch64-unknown-linux-gnu
mirror=${MIRROR:-http://deb.debian.org/debian}
mkdir -p "$work"

# apt for arm64 with a state of its own.
arm_apt() {
    local command=$1
    shift
    mkdir -p "$work"/apt/{lists/partial,cache/archives/partial}
    touch "$work/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$work/apt/sources.list"
    "$command" -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::Etc::sourcelist="$work/apt/sources.list" \
        -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" \
        -o Dir::State::status="$work/apt/status" -o APT::Sandbox::User=root "$@"
}

# Fetches a kernel, and makes a root directory of the essential packages, which run without being configured.
fetch_system() {
    local kernel deb folder
    arm_apt apt-get update
    kernel=$(arm_apt apt-cache depends linux-image-arm64 | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
    mkdir -p "$work/debs"
    (cd "$work/debs" && arm_apt apt-get download "$kernel" busybox-static libgcc-s1 libstdc++6)
    for deb in "$work"/debs/linux-image-*.deb "$work"/debs/busybox-static_*.deb; do dpkg-deb -x "$deb" "$work/kernel"; done
    rm -rf "$work/root"
    debootstrap --arch=arm64 --foreign --variant=minbase "$suite" "$work/root" "$mirror" > "$work/debootstrap.txt"
    for folder in proc sys; do [ ! -L "$work/root/$folder" ] || { rm "$work/root/$folder" && mkdir "$work/root/$folder"; }; done
    for deb in "$work"/debs/lib*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$work/root"; done
    touch "$work/root/.whole"
}

# Makes the first file system: what is needed to mount the root directory of this machine.
make_initrd() {
    local modules=(virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p) module found
    rm -rf "$work/initrd"
    mkdir -p "$work"/initrd/{bin,modules,proc,dev,new}
    cp "$(find "$work/kernel" -path '*/bin/busybox')" "$work/initrd/bin/"
    for module in "${modules[@]}"; do
        found=$(find "$work/kernel" -name "$module.ko*" | head -1)
        case $found in
            *.xz) xz -dc "$found" > "$work/initrd/modules/$module.ko" ;;
            ?*) cp "$found" "$work/initrd/modules/" ;;
        esac
    done
    {
        echo '#!/bin/busybox sh'
        echo '/bin/busybox mount -t proc proc /proc; /bin/busybox mount -t devtmpfs dev /dev'
        for module in "${modules[@]}"; do echo "[ ! -e /modules/$module.ko ] || /bin/busybox insmod /modules/$module.ko"; done
        echo '/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap shared /new'
        echo 'for kind in proc sysfs devtmpfs tmpfs; do'
        echo 'case $kind in proc) at=proc ;; sysfs) at=sys ;; devtmpfs) at=dev ;; tmpfs) at=tmp ;; esac'
        echo '/bin/busybox mount -t $kind $kind /new/$at; done'
        echo '/bin/busybox mkdir -p /new/dev/shm; /bin/busybox mount -t tmpfs tmpfs /new/dev/shm'
        echo 'exec /bin/busybox switch_root /new /bin/bash /.guest'
    } > "$work/initrd/init"
    chmod +x "$work/initrd/init"
    (cd "$work/initrd" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd.gz"
}

# Runs a command as root on a processor of this kind.
boot() {
    local cpu=$1 command=$2
    rm -f "$work/root/.done"
    printf '%s\n' 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=xterm' 'ip link set lo up' 'cd /root' \
        "set -e; $command" 'touch /.done; sync; echo o > /proc/sysrq-trigger; sleep 20' > "$work/root/.guest"
    timeout --foreground 900 qemu-system-aarch64 -M virt -cpu "$cpu" -accel tcg,thread=multi -smp 2 -m 2G -nographic -no-reboot -nic none \
        -kernel "$(find "$work/kernel/boot" -name 'vmlinuz-*')" -initrd "$work/initrd.gz" \
        -append "console=ttyAMA0 quiet loglevel=3 panic=-1 sysrq_always_enabled=1" \
        -virtfs "local,path=$work/root,mount_tag=shared,security_model=none,multidevs=remap" > "$work/console.txt" < /dev/null || true
    [ -e "$work/root/.done" ] || { tail -40 "$work/console.txt"; echo "the emulated machine has failed"; return 1; }
}

build() {
    rustup target add "$target"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc cargo build --locked --target "$target"
    cp "target/$target/debug/sigtop" "$work/root/root/"
    local optimization
    for optimization in O0 O1 O2 O3; do
        aarch64-linux-gnu-gcc -g -$optimization -fomit-frame-pointer -o "$work/root/root/plain-$optimization" "$work/chain.c"
        aarch64-linux-gnu-gcc -g -$optimization -mbranch-protection=standard -o "$work/root/root/signed-$optimization" "$work/chain.c"
        aarch64-linux-gnu-gcc -g -$optimization -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables \
            -o "$work/root/root/tableless-$optimization" "$work/chain.c"
    done
    aarch64-linux-gnu-gcc -static -g -O2 -o "$work/root/root/static-O2" "$work/chain.c"
    aarch64-linux-gnu-gcc -g -O2 -o "$work/root/root/waits" "$work/waits.c"
}

cat > "$work/chain.c" <<- 'C'
	#include <unistd.h>
	#include <time.h>
	static volatile unsigned long sink;
	__attribute__((noinline)) unsigned long leaf(unsigned long n) {
	    unsigned long a = 1;
	    for (unsigned long i = 0; i < n; i++) a = a * 6364136223846793005ul + i;
	    return a;
	}
	__attribute__((noinline)) unsigned long middle(unsigned long n) {
	    unsigned long r = leaf(n) + leaf(n / 2);
	    sink += r;
	    return r;
	}
	__attribute__((noinline)) unsigned long top(unsigned long n) {
	    unsigned long r = middle(n);
	    sink ^= r;
	    return r;
	}
	int main(void) {
	    for (clock_t end = clock() + 3 * CLOCKS_PER_SEC; clock() < end;) sink += top(300000);
	    _exit(0);
	}
C
cat > "$work/waits.c" <<- 'C'
	#include <pthread.h>
	#include <stdlib.h>
	#include <unistd.h>
	#include <poll.h>
	#include <time.h>
	static volatile unsigned long sink;
	static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
	__attribute__((noinline)) void *hold(void *none) {
	    for (;;) {
	        pthread_mutex_lock(&cache);
	        for (int i = 0; i < 300000; i++) sink += i;
	        pthread_mutex_unlock(&cache);
	    }
	    return none;
	}
	__attribute__((noinline)) void *rest(void *none) {
	    for (;;) poll(0, 0, 50);
	    return none;
	}
	__attribute__((noinline)) void allocate(void) {
	    for (int i = 0; i < 200; i++) {
	        volatile char *block = malloc(1000 + i * 10);
	        block[0] = 1;
	        free((void *)block);
	    }
	}
	int main(void) {
	    pthread_t thread;
	    pthread_create(&thread, 0, hold, 0);
	    pthread_create(&thread, 0, hold, 0);
	    pthread_create(&thread, 0, rest, 0);
	    for (time_t end = time(0) + 4; time(0) < end;) allocate();
	    _exit(0);
	}
C

[ -e "$work/root/.whole" ] || fetch_system
make_initrd
build
rm -f "$work"/root/root/*.folded "$work"/root/root/*.sigtop "$work"/root/root/*.txt
# The first samples of a program wait in a small room, and the emulator is slow: 20 samples a second are few enough for it.
record='record() { ./sigtop --no-config record --quiet --hz 20 "$@" > /dev/null 2>> errors.txt; }'
boot cortex-a72 "$record"'
for program in plain-* tableless-* static-*; do for engine in threads events ptrace; do
    [ "$program $engine" = "static-O2 threads" ] || record --engine $engine -o $program.$engine.folded -- ./$program
done; done
record --symbols --clock wall -o waits.sigtop -- ./waits
record --symbols --clock alloc -o allocations.sigtop -- ./waits
record --symbols -o chain.sigtop -- ./plain-O2
for kind in top traces tags; do ./sigtop --no-config report --$kind chain.sigtop > chain.$kind.txt 2>> errors.txt; done'
# A processor with pointer authentication, branch targets and SVE.
boot max,pauth-impdef=on "$record"'
for program in signed-*; do for engine in threads events ptrace; do record --engine $engine -o $program.$engine.folded -- ./$program; done; done'

# Of the samples within `main`, 99.5 % must have a stack that the program can have. The clock is read in a library and in the vdso.
for file in "$work"/root/root/*.folded; do
    awk -v name="$(basename "$file" .folded)" '
        { count = $NF; sub(/ [0-9]+$/, "") }
        !/main/ && !/truncated/ { next }
        { all += count }
        /(^|;)_start;(__libc_start_main|__libc_start_main_impl|libc.so.6[^;]*|__libc_start_call_main|;)*main(;top(;middle(;leaf)?)?|(;[^;]*)*clock(;.*)?)?$/ { good += count }
        END { print name, good + 0, all + 0 }' "$file"
done | awk '
    { printf "%-24s %4d of %4d\n", $1, $2, $3; good += $2; all += $3; if ($3 < 30) few = 1 }
    END { printf "%.2f %% of %d stacks are exact\n", 100 * good / all, all; exit few || good < 0.995 * all }'

# Recordings of that processor say the same here.
cargo build --locked
for kind in top traces tags; do
    target/debug/sigtop --no-config report --$kind "$work/root/root/chain.sigtop" 2> /dev/null | diff - "$work/root/root/chain.$kind.txt"
done
target/debug/sigtop --no-config report --top "$work/root/root/waits.sigtop" > "$work/waits.txt"
target/debug/sigtop --no-config report --tags "$work/root/root/waits.sigtop" > "$work/tags.txt"
grep -q ' poll$' "$work/waits.txt"
grep -q ' lock$' "$work/tags.txt"
target/debug/sigtop --no-config report --top "$work/root/root/allocations.sigtop" | grep -q ' allocate$'
echo "── aarch64 works"
