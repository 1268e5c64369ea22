#!/usr/bin/env python3
"""Runs `cargo test` and counts what became of every test, over all test binaries.

    scripts/count-tests.py cargo test --workspace

The output passes through. The last line is `N passed, N failed, N skipped`. Skipped are tests marked
`#[ignore]`, and tests that end early with a line `skipped: why` because the machine lacks something:
both are named. Exit code 1 when a test failed or the command did.
"""

import re
import subprocess
import sys

TEST = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<outcome>ok|FAILED|ignored)(?P<why>, .*)?$")
RESULT = re.compile(r"^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored;")
SECTION = re.compile(r"^---- (?P<name>.+?) std(out|err) ----$")


class Counter:
    """Reads the output line by line; knows which lines a reader wants to see."""

    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []
        self.failures = []
        self.in_successes = False
        self.test = None
        # Tests of this binary that printed `skipped:`; a test counts once.
        self.aloud = {}

    def line(self, line):
        """Takes a line; says whether to show it."""
        result = RESULT.match(line)
        if result:
            passed, failed, _ = map(int, result.groups())
            self.passed += passed - len(self.aloud)
            self.failed += failed
            self.skipped += self.aloud.items()
            self.in_successes, self.test, self.aloud = False, None, {}
            return True
        if line == "successes:":
            self.in_successes = True
            return False
        if line == "failures:":
            self.in_successes = False
            return True
        if self.in_successes:
            section = SECTION.match(line)
            if section:
                self.test = section["name"]
            elif self.test and line.startswith("skipped:"):
                self.aloud.setdefault(self.test, line.removeprefix("skipped:").strip())
                return True
            # What a test that passed has printed is of no interest.
            return False
        test = TEST.match(line)
        if test and test["outcome"] == "ignored":
            self.skipped.append((test["name"], (test["why"] or "").removeprefix(", ") or "no reason given"))
        elif test and test["outcome"] == "FAILED":
            self.failures.append(test["name"])
        return True

    def summary(self, code):
        """The closing lines and the exit code, given that of the command."""
        lines = [f"skipped  {name}: {why}" for name, why in self.skipped]
        lines += [f"failed   {name}" for name in self.failures]
        if code != 0 and self.failed == 0:
            lines.append(f"the command ended with code {code}: something failed to build, or a test binary was ended")
            self.failed = 1
        if self.passed == 0 and self.failed == 0:
            lines.append("no test ran at all")
            self.failed = 1
        lines.append(f"{self.passed} passed, {self.failed} failed, {len(self.skipped)} skipped")
        return lines, int(self.failed > 0)


def self_test():
    """The counter, against output that holds one of everything."""
    counter = Counter()
    shown = [
        line
        for line in """running 4 tests
test a ... ok
test b ... ok
test c ... FAILED
test soak_d ... ignored, soak: takes an hour

successes:

---- b stdout ----
some noise
skipped: no tmpfs here

successes:
    a
    b

failures:

---- c stdout ----
skipped: is what the failure printed

failures:
    c

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
running 1 test
test src/lib.rs - (line 3) ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s""".splitlines()
        if counter.line(line)
    ]
    assert "some noise" not in shown and "skipped: no tmpfs here" in shown
    lines, code = counter.summary(101)
    assert lines[-1] == "2 passed, 1 failed, 2 skipped" and code == 1, lines
    assert "skipped  b: no tmpfs here" in lines and "skipped  soak_d: soak: takes an hour" in lines, lines
    assert Counter().summary(101)[1] == 1 and Counter().summary(0)[1] == 1


def main():
    self_test()
    command = sys.argv[1:]
    if not command:
        sys.exit("give the command to run: scripts/count-tests.py cargo test --workspace")
    at = command.index("--") if "--" in command else len(command)
    command = [*command[:at], "--no-fail-fast", *(command[at:] or ["--"]), "--show-output"]
    counter = Counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            if counter.line(line.rstrip("\n")):
                sys.stdout.write(line)
                sys.stdout.flush()
    lines, code = counter.summary(process.returncode)
    print()
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
