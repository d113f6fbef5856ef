"""Runs some of CPython's own tests and prints a line for each test case: `ok`, `skipped` or `failed`, and its name."""
import sys
import unittest

import test.support


class Results(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.cases = {}

    def startTest(self, case):
        super().startTest(case)
        self.cases[case.id()] = "ok"

    def addSkip(self, case, reason):
        self.cases[case.id()] = "skipped"

    def addFailure(self, case, error):
        super().addFailure(case, error)
        self.cases[case.id()] = "failed"

    def addError(self, case, error):
        super().addError(case, error)
        self.cases[case.id()] = "failed"

    def addUnexpectedSuccess(self, case):
        self.cases[case.id()] = "failed"

    def addSubTest(self, case, part, error):
        super().addSubTest(case, part, error)
        if error is not None:
            self.cases[case.id()] = "failed"


def without_vsock(suite):
    """Leaves out tests of sockets between a virtual machine and its host: they wait for ever where the host does not answer."""
    parts = [without_vsock(part) if isinstance(part, unittest.TestSuite) else part for part in suite]
    return unittest.TestSuite(part for part in parts if isinstance(part, unittest.TestSuite) or "VSOCK" not in part.id())


# Tests that need the network, much memory or a screen are left out, as by `python -m test`.
test.support.use_resources = ()
results = Results()
without_vsock(unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])).run(results)
for case, text in results.failures + results.errors:
    print(f"{case.id()}\n{text}", file=sys.stderr)
print()
for case, result in results.cases.items():
    print(result, case.replace("\n", " "))
