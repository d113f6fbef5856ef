"""Targets of the tests of Python functions. The argument says which one, and the next for how long."""
import collections
import functools
import os
import sys
import threading
import time


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def burn_a(seconds):
    spin(seconds)


def burn_b(seconds):
    spin(seconds)


def burn_c(seconds):
    spin(seconds)


def shares(seconds):
    """Functions that use 60, 30 and 10 percent of the time. Turns of one length would keep step with ticks."""
    for turn in range(int(seconds * 100)):
        length = 0.5 + turn * 0.618034 % 1
        burn_a(0.006 * length)
        burn_b(0.003 * length)
        burn_c(0.001 * length)


def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def recurse(depth):
    return leaf(50) if depth == 0 else recurse(depth - 1)


def through_c(depth):
    return leaf(50) if depth == 0 else max(map(through_c, [depth - 1]))


def produce(n):
    for i in range(n):
        yield leaf(20) + i


def delegate(n):
    yield from produce(n)


def sort_key(x):
    return leaf(10) - x


def combine(a, b):
    return a + leaf(b % 20)


class Meter:
    def __del__(self):
        leaf(30)

    def __eq__(self, other):
        return leaf(30) == other

    @property
    def value(self):
        return leaf(30)


def calls(seconds):
    """Calls of every kind: through C, of generators, in destructors and operators. From outside, code
    within some microseconds after a system call has too few samples, so the clock is read seldom."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(20):
            recurse(20)
            through_c(5)
            sum(produce(10))
            sum(delegate(10))
            sorted(range(40), key=sort_key)
            functools.reduce(combine, range(40))
            Meter() == 7
            Meter().value
            [sort_key(x) for x in range(5)]
            (lambda: leaf(60))()
            try:
                fail()
            except ValueError:
                leaf(20)


def fail():
    leaf(20)
    raise ValueError


def worker(seconds):
    calls(seconds)


def threads(seconds):
    """The same calls in threads that take turns."""
    started = [threading.Thread(target=worker, args=(seconds / 4,)) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def deep(seconds):
    """Recursion deeper than a sample."""
    sys.setrecursionlimit(3000)
    bottom = lambda depth: spin(seconds) if depth == 0 else bottom(depth - 1)
    bottom(900)


def nap(seconds):
    time.sleep(seconds)


def filtered(seconds):
    """Work and sleep under a seccomp filter that allows everything."""
    import ctypes
    import struct
    allow = struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(allow)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    filter_mode = 2
    no_new_privileges, set_seccomp = 38, 22
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(set_seccomp, filter_mode, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")
    burn_a(seconds / 2)
    nap(seconds / 2)


def children(seconds):
    """A child of fork."""
    pid = os.fork()
    if pid == 0:
        burn_b(seconds / 2)
        os._exit(0)
    burn_a(seconds / 2)
    os.waitpid(pid, 0)


def replaced(seconds):
    """Functions that live for a part of a second. Then others take the place of their code."""
    end = time.thread_time() + seconds
    number = 0
    kept = collections.deque(maxlen=2000)
    while time.thread_time() < end:
        number += 1
        name = f"made_{number}"
        scope = {"leaf": leaf}
        code = compile(f"{chr(10) * (number % 90)}def {name}(): leaf(300)\n{name}()", f"{name}.py", "exec")
        kept.append((scope, code))
        exec(code, scope)


{
    "shares": shares,
    "calls": calls,
    "threads": threads,
    "deep": deep,
    "nap": nap,
    "filtered": filtered,
    "children": children,
    "replaced": replaced,
}[sys.argv[1]](float(sys.argv[2]))
