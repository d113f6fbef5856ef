#!/usr/bin/env bash
# Builds sigtop for aarch64 and records programs there, on arm64 kernels in an emulator: `tests/aarch64.sh [WORK]`. What is recorded there
# is read here, too. The library's tests of what depends on the processor run there. The packages are those of `.ci/packages-aarch64`;
# kernels and root directory come from Debian and are kept in WORK.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(realpath -m "${1:-target/aarch64}") suite=bookworm target=aarch64-unknown-linux-gnu
# The first Debian with a kernel of 16 KiB pages.
newer=trixie
mirror=${MIRROR:-http://deb.debian.org/debian} programs=$PWD/tests/targets/aarch64
mkdir -p "$work"

# apt of a suite for arm64 with a state of its own: `arm_apt SUITE COMMAND...`.
arm_apt() {
    local state="$work/apt-$1" of=$1 command=$2
    shift 2
    mkdir -p "$state"/{lists/partial,cache/archives/partial}
    touch "$state/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $of main" > "$state/sources.list"
    "$command" -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::Etc::sourcelist="$state/sources.list" \
        -o Dir::Etc::sourceparts=- -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" \
        -o Dir::State::status="$state/status" -o APT::Sandbox::User=root "$@"
}

# Fetches a kernel: `fetch_kernel SUITE PACKAGE FOLDER`.
fetch_kernel() {
    local package
    arm_apt "$1" apt-get update
    package=$(arm_apt "$1" apt-cache depends "$2" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
    rm -rf "$work/$3" "$work/debs-$3"
    mkdir -p "$work/debs-$3"
    (cd "$work/debs-$3" && arm_apt "$1" apt-get download "$package")
    dpkg-deb -x "$work/debs-$3"/linux-image-*.deb "$work/$3"
}

# Fetches kernels, and makes a root directory of the essential packages, which run without being configured.
fetch_system() {
    local deb folder
    fetch_kernel "$suite" linux-image-arm64 kernel
    fetch_kernel "$newer" linux-image-arm64-16k kernel-16k
    mkdir -p "$work/debs"
    (cd "$work/debs" && arm_apt "$suite" apt-get download \
        busybox-static libgcc-s1 libstdc++6 musl-dev python3.11-minimal libpython3.11-minimal libexpat1 zlib1g)
    dpkg-deb -x "$work"/debs/busybox-static_*.deb "$work/busybox"
    dpkg-deb -x "$work"/debs/musl-dev_*.deb "$work/musl"
    rm -rf "$work/root"
    debootstrap --arch=arm64 --foreign --variant=minbase "$suite" "$work/root" "$mirror" > "$work/debootstrap.txt"
    cp "$(find "$work/busybox" -path '*/bin/busybox')" "$work/root/usr/bin/"
    for folder in proc sys; do [ ! -L "$work/root/$folder" ] || { rm "$work/root/$folder" && mkdir "$work/root/$folder"; }; done
    for deb in "$work"/debs/{lib,python,zlib}*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$work/root"; done
    touch "$work/root/.whole"
}

# Makes the first file system of a kernel: what is needed to mount the root directory of this machine.
make_initrd() {
    local modules=(virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p) module found
    rm -rf "$work/initrd"
    mkdir -p "$work"/initrd/{bin,modules,proc,dev,new}
    cp "$(find "$work/busybox" -path '*/bin/busybox')" "$work/initrd/bin/"
    for module in "${modules[@]}"; do
        found=$(find "$work/$1" -name "$module.ko*" | head -1)
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
    (cd "$work/initrd" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/$1.initrd"
}

# Runs a command as root: `boot KERNEL PROCESSOR COMMAND`.
boot() {
    local kernel=$1 cpu=$2 command=$3
    rm -f "$work/root/.done"
    printf '%s\n' 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=xterm' 'busybox ip link set lo up' 'cd /root' \
        "set -e; $command" 'touch /.done; sync; echo o > /proc/sysrq-trigger; sleep 20' > "$work/root/.guest"
    timeout --foreground 900 qemu-system-aarch64 -M virt -cpu "$cpu" -accel tcg,thread=multi -smp 2 -m 2G -nographic -no-reboot -nic none \
        -kernel "$(find "$work/$kernel/boot" -name 'vmlinuz-*')" -initrd "$work/$kernel.initrd" \
        -append "console=ttyAMA0 quiet loglevel=3 panic=-1 sysrq_always_enabled=1" \
        -virtfs "local,path=$work/root,mount_tag=shared,security_model=none,multidevs=remap" > "$work/console.txt" < /dev/null || true
    [ -e "$work/root/.done" ] || { tail -40 "$work/console.txt"; echo "the emulated machine has failed"; return 1; }
}

# Compiles a program: `compile NAME SOURCE OPTION...`.
compile() {
    aarch64-linux-gnu-gcc -g "${@:3}" -o "$work/root/root/$1" "$programs/$2"
}

build() {
    rustup target add "$target"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    cargo build --locked --target "$target"
    cp "target/$target/debug/sigtop" "$work/root/root/"
    cargo test --locked --all-features --target "$target" --lib --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | xargs -I{} cp {} "$work/root/root/library-tests"
    local optimization bti=(-nostartfiles "$programs/bti_start.S" -Wl,-z,force-bti)
    local tableless=(-g0 -fno-asynchronous-unwind-tables -fno-unwind-tables) libc="$work/musl/usr/lib/aarch64-linux-musl"
    for optimization in O0 O1 O2 O3; do
        compile "plain-$optimization" chain.c "-$optimization" -fomit-frame-pointer
        compile "signed-$optimization" chain.c "-$optimization" -mbranch-protection=standard "${bti[@]}" 2> /dev/null
        compile "tableless-$optimization" chain.c "-$optimization" -fno-omit-frame-pointer "${tableless[@]}"
        compile "indirect-$optimization" chain.c "-$optimization" -fno-omit-frame-pointer "${tableless[@]}" -DINDIRECT
    done
    compile static-O2 chain.c -static -O2
    compile altstack altstack.c -O2
    compile sleeper leaf_sleeper.c -O2
    compile waits waits.c -O2
    aarch64-linux-gnu-gcc -g -O2 -static -nostdinc -isystem "$work/musl/usr/include/aarch64-linux-musl" -nostdlib -o "$work/root/root/rests" \
        "$libc"/crt1.o "$libc"/crti.o "$programs/rests.c" "$libc"/libc.a "$(aarch64-linux-gnu-gcc -print-libgcc-file-name)" "$libc"/crtn.o
    cp "$programs/chain.py" "$work/root/root/"
    GOOS=linux GOARCH=arm64 CGO_ENABLED=0 GO111MODULE=off go build -o "$work/root/root/works" "$programs/works.go" || echo "── no Go"
}

[ -e "$work/root/.whole" ] || fetch_system
make_initrd kernel
make_initrd kernel-16k
build
rm -f "$work"/root/root/*.folded "$work"/root/root/*.sigtop "$work"/root/root/*.txt
# The first samples of a program wait in a small room, and the emulator is slow: 20 samples a second are few enough for it.
record='record() { ./sigtop --no-config record --quiet --hz 20 "$@" > /dev/null 2>> errors.txt; }
each() { for engine in threads events ptrace; do record --engine $engine -o $1.$engine.folded -- ./$1; done; }
outside() { for engine in events ptrace; do record --engine $engine -o $1.$engine.folded -- ./$1; done; }
asleep() { for engine in $2; do record --clock wall --engine $engine -o $1.$engine.folded -- ./$1; done; }'
boot kernel cortex-a72 "$record"'
for program in plain-* tableless-* indirect-*; do each $program; done
outside static-O2
[ ! -e works ] || outside works
each altstack
asleep sleeper "threads events ptrace"
asleep rests "events ptrace"
for engine in threads ptrace; do record --engine $engine -o python.$engine.folded -- python3.11 -S -E chain.py; done
record --symbols --clock wall -o waits.sigtop -- ./waits
record --symbols --clock alloc -o allocations.sigtop -- ./waits
record --symbols -o chain.sigtop -- ./plain-O2
for kind in top traces tags; do ./sigtop --no-config report --$kind chain.sigtop > chain.$kind.txt 2>> errors.txt; done'
# The tests of what depends on the processor, with framehop as the oracle of stacks.
boot kernel max,pauth-impdef=on './library-tests agent:: arch:: attach:: process:: sampler:: wire:: > library-tests.txt 2>&1' || {
    cat "$work/root/root/library-tests.txt"
    exit 1
}
# A processor with pointer authentication, branch targets and SVE.
boot kernel max,pauth-impdef=on "$record"'
for program in signed-*; do each $program; done
cp altstack sve; each sve'
# A kernel with pages of 16 KiB.
boot kernel-16k max,pauth-impdef=on "$record"'
for program in plain tableless; do cp $program-O2 16k-$program; each 16k-$program; done
cp altstack 16k-altstack; each 16k-altstack
record --symbols --clock alloc -o 16k.sigtop -- ./waits'

# Of the samples within `main`, 99.5 % must have a stack that the program can have. The clock is read in a library and in the vdso.
for file in "$work"/root/root/*.folded; do
    name=$(basename "$file" .folded)
    case $name in
        *altstack.* | sve.*) tail='(;inside|;work(;keep(;[^;]*memcmp[^;]*)?)?|(;[^;]*)*clock(;.*)?)?(;on_tick(;inside)?)?' ;;
        python.*) continue ;;
        sleeper.*) tail='(;outer(;(once|twice|by_jump)(;(doze|nod))?)?)?' ;;
        rests.*) tail='(;outer(;rest(;poll(;.*)?)?)?)?' ;;
        works.*) tail='(;main.work(;main.spin)?|;time.Now.*|;time.Time.*)?' ;;
        *) tail='(;top(;middle(;leaf)?)?|(;[^;]*)*clock(;.*)?)?' ;;
    esac
    awk -v name="$name" -v tail="$tail" '
        { count = $NF; sub(/ [0-9]+$/, "") }
        !/main/ && !/truncated/ { next }
        { all += count }
        $0 ~ "(^|;)(_start;(_start_c;)?(__libc_start_main|__libc_start_main_impl|libc_start_main_stage2|libc.so.6[^;]*|__libc_start_call_main|;)*main|libc_start_main_stage2;main|runtime.goexit(.abi0)?;runtime.main;main.main)" tail "$" { good += count }
        END { print name, good + 0, all + 0 }' "$file"
done | awk '
    { printf "%-24s %4d of %4d\n", $1, $2, $3; good += $2; all += $3; if ($3 < 30) few = 1 }
    END { printf "%.2f %% of %d stacks are exact\n", 100 * good / all, all; exit few || good < 0.995 * all }'

# Where Python runs a function, its frames are read. A thread that was stopped may be changing them.
for engine in threads ptrace; do
    awk -v engine=$engine '
        /chain.py|_PyEval_EvalFrameDefault/ { all += $NF }
        /;<module> [^;]*chain.py:[0-9]+\)(;middle [^;]*(;leaf [^;]*)?)?(;[^;]*clock[^;]*)* [0-9]+$/ { good += $NF }
        END { print "python." engine, good + 0, "of", all; exit all < 30 || good < 0.85 * all }' "$work/root/root/python.$engine.folded"
done

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
target/debug/sigtop --no-config report --top "$work/root/root/16k.sigtop" | grep -q ' allocate$'
echo "── aarch64 works"
