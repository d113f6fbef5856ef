#!/bin/sh
# What a job of a CI system does with sigtop, where it has no right and no screen: `ci-job.sh SIGTOP BURNER DIRECTORY`. BURNER is
# tests/targets/shares.c. The first thing that is not as expected ends it.
set -eu
sigtop=$1 burner=$2
cd "$3"
export HOME="$3" TMPDIR="$3" NO_COLOR=1

fail() { echo "ci-job: $*" >&2; exit 1; }
# has FILE WORD...: each word is in the file.
has() {
    file=$1; shift
    for word in "$@"; do grep -q -- "$word" "$file" || { cat "$file" >&2; fail "no $word in $file"; }; done
}
# status EXPECTED COMMAND...: the exit status of a command.
status() {
    expected=$1; shift
    code=0; "$@" || code=$?
    [ $code -eq "$expected" ] || fail "status $code instead of $expected: $*"
}

# The base is recorded five times and kept; a change makes burn_b more than twice as slow.
"$sigtop" record --quiet --hz 500 --repeat 5 -o 'base-%n.sigtop' -- "$burner" 60 30 10 1 > /dev/null
"$sigtop" record --quiet --hz 500 --repeat 5 -o 'same-%n.sigtop' -- "$burner" 60 30 10 1 > /dev/null
"$sigtop" record --quiet --hz 500 --repeat 5 -o 'slow-%n.sigtop' -- "$burner" 42 51 7 1.4 > /dev/null
status 1 "$sigtop" check --github --fail-on 'burn_b>+10%' --base base-*.sigtop --new slow-*.sigtop > slow.txt
has slow.txt '^::error .*burn_b has grown by' '^regression: '
status 1 "$sigtop" check --markdown --total '+5%' --base base-*.sigtop --new slow-*.sigtop > slow.md
has slow.md '^### sigtop check: regression' '| `burn_b` |' 'total has grown'
status 0 "$sigtop" check --json --total '+5%' --base base-*.sigtop --new same-*.sigtop > same.json
has same.json '"schema": *"sigtop.check.v1"' '"verdict": *"fine"'
status 2 "$sigtop" check --new same-1.sigtop 2> no-base.txt
# Too short to tell anything.
status 3 "$sigtop" check --runs 2 -- "$burner" 60 30 10 0.02 -- "$burner" 60 30 10 0.02 > short.txt
has short.txt '^inconclusive: ' 'runs a side would do'

# Tables for people and for programs.
"$sigtop" report --top base-1.sigtop > top.txt
has top.txt burn_a burn_b
for kind in --top --tree --traces --tags --peek=burn_a --list=burn_a; do
    "$sigtop" report "$kind" --json base-1.sigtop > "report.json"
    has report.json '"schema": *"sigtop\.'
done
"$sigtop" report --top --json --diff_base base-1.sigtop slow-1.sigtop > diff.json
has diff.json burn_b
"$sigtop" report --proto -o profile.pb.gz base-1.sigtop
"$sigtop" view --batch --json base-1.sigtop slow-1.sigtop > both.json
has both.json burn_a
"$sigtop" explain base-1.sigtop > explain.txt
has explain.txt 'burn_a .* more than any other function'
"$sigtop" symbols --json "$burner" > symbols.json
has symbols.json '"schema": *"sigtop\.'
"$sigtop" --batch --json --hz 500 -- "$burner" 60 30 10 0.5 > batch.out 2> batch.txt
cat batch.out batch.txt > batch.json
has batch.json '"schema": *"sigtop\.top' burn_a

# What runs anyway is recorded by a black box, and read when a test has failed.
trap 'kill $service 2> /dev/null || true' EXIT
"$burner" 60 30 10 600 > /dev/null &
service=$!
"$sigtop" --pid $service --batch --interval 2s --count 1 > attached.txt
has attached.txt burn_a
"$sigtop" record --quiet --keep 30s -o 'service-%t.sigtop' --pid $service &
recorder=$!
tries=0
until "$sigtop" dump $recorder > dump.txt 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat dump.txt >&2; fail "the recorder does not answer"; }
    sleep 0.1
done
"$sigtop" --json > processes.json
has processes.json '"schema": *"sigtop\.processes' shares
kill $recorder
wait $recorder || true
ls service-*.sigtop > /dev/null

# What a packager installs.
"$sigtop" man > sigtop.1
"$sigtop" completions bash > completions
has sigtop.1 '^\.TH'
has completions sigtop
echo "ci-job: all well"
