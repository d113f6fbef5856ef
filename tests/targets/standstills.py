"""Like standstills.c, in Python: standstills.py SECONDS COUNT."""
import sys
import time


def look(depth, end_ns, gaps):
    if depth:
        return look(depth - 1, end_ns, gaps)
    now_ns = time.monotonic_ns
    looks, before_ns = 0, now_ns()
    while before_ns < end_ns:
        after_ns = now_ns()
        if after_ns - before_ns >= 1000:
            gaps.append(after_ns - before_ns)
        looks, before_ns = looks + 1, after_ns
    return looks


seconds, count = int(sys.argv[1]), int(sys.argv[2])
gaps = []
looks = look(24, time.monotonic_ns() + seconds * 1_000_000_000, gaps)
gaps = sorted(gaps, reverse=True)[:count]
print("median", gaps[len(gaps) // 2])
print("p99", gaps[len(gaps) // 100])
print("longest", gaps[0])
print("looks", looks)
print("process", time.process_time_ns())
