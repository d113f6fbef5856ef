# Burns CPU time in the last of three functions for four seconds.
import time


def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def middle(n):
    return leaf(n)


end = time.process_time() + 4
while time.process_time() < end:
    middle(20000)
