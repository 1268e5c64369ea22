#!/usr/bin/env python3
"""Runs `cargo test` and counts the outcome of every test, over all test binaries.

    scripts/count-tests.py [--stores sqlite,redis,…] [--patience 600] [--at-once 2] [--slowest 20] cargo test --workspace

Builds the binaries first. Then runs them, the largest first, `--at-once` at a time (default 1), because tests mostly
wait for servers. Shows the output of each when it ends. The last line is `N passed, N failed, N skipped`. Skipped
tests are those marked `#[ignore]`, and those that end early with a line `skipped: why` because the machine lacks
something. Both are listed. Ends with exit code 1 if a test or the command failed.

With `--stores`, the lines before show the result of the conformance suite on each store that it ran on. A listed store
on which it did not run, or did not finish, is a failure.

A test binary in which no test has ended for `--patience` seconds (default 600) is killed, which is a failure. The
script lists the tests that were still running, with what their threads wait for according to the kernel.

With `--slowest N`, the lines before the last show the N tests that took longest. The time includes waiting for a
processor. The binaries print it only with an unstable option, which `RUSTC_BOOTSTRAP=1` allows: not for the record.
"""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

TEST = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<outcome>ok|FAILED|ignored)(?P<why>, .*?)?(?: <(?P<took>[\d.]+)s>)?$")
BEGIN = re.compile(r"^running \d+ tests?$")
RESULT = re.compile(r"^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored;")
PANIC = re.compile(r"^thread .* panicked at ")
SECTION = re.compile(r"^---- (?P<name>.+?) std(out|err) ----$")


class Counter:
    """Reads the output line by line, and decides which lines to show."""

    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []
        self.failures = []
        # Why each failed, by name: where it panicked, and the first line of the message.
        self.reasons = {}
        # Seconds and name of each test, if the binary tells them.
        self.times = []
        self.in_successes = False
        self.test = None
        # Tests of this binary that printed `skipped:`. A test counts once.
        self.aloud = {}
        # Tests of the running binary that have ended, and when the last one did. None between binaries.
        self.ended = set()
        self.heard = None

    def line(self, line):
        """Processes a line. Returns whether to show it."""
        if BEGIN.match(line):
            self.ended, self.heard = set(), time.monotonic()
        result = RESULT.match(line)
        if result:
            self.heard = None
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
            self.in_successes, self.test = False, None
            return True
        if self.in_successes:
            section = SECTION.match(line)
            if section:
                self.test = section["name"]
            elif self.test and line.startswith("skipped:"):
                self.aloud.setdefault(self.test, line.removeprefix("skipped:").strip())
                return True
            # Of what a passed test printed, only the figures of long tests are shown.
            return line.startswith("soak: ")
        section = SECTION.match(line)
        if section:
            self.test = section["name"]
        elif self.test and len(self.reasons.setdefault(self.test, [])) < 2 and (self.reasons[self.test] or PANIC.search(line)):
            self.reasons[self.test].append(line)
        test = TEST.match(line)
        if test:
            self.ended.add(test["name"])
            self.heard = time.monotonic()
            self.times += [(float(test["took"]), test["name"])] if test["took"] else []
        if test and test["outcome"] == "ignored":
            self.skipped.append((test["name"], (test["why"] or "").removeprefix(", ") or "no reason given"))
        elif test and test["outcome"] == "FAILED":
            self.failures.append(test["name"])
        return True


def summary(counters, code, conformance=(), missing=()):
    """The last lines and the exit code, from the counters of all binaries and the code of a failed one, if any."""
    passed, failed = (sum(getattr(each, what) for each in counters) for what in ("passed", "failed"))
    skipped, failures = ([one for each in counters for one in getattr(each, what)] for what in ("skipped", "failures"))
    # A binary that was killed has no result, and its tests are in the list alone.
    failed = max(failed, len(failures))
    lines = list(conformance)
    lines += [f"skipped  {name}: {why}" for name, why in skipped]
    reasons = {name: " ".join(said)[:1000] for each in counters for name, said in each.reasons.items()}
    lines += [f"failed   {name}: {reasons[name]}" if reasons.get(name) else f"failed   {name}" for name in failures]
    if code != 0 and failed == 0:
        lines.append(f"a command ended with code {code}: a build failed, or a test binary was killed")
        failed = 1
    if passed == 0 and failed == 0:
        lines.append("no test ran")
        failed = 1
    if missing:
        lines.append(f"the conformance suite did not finish on {', '.join(missing)}")
        failed += 1
    lines.append(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return lines, int(failed > 0)


def slowest(counters, most):
    """A line for each of the tests that took longest."""
    times = sorted((one for each in counters for one in each.times), reverse=True)[:most]
    return [f"{seconds:7.1f} s  {name}" for seconds, name in times]


def conformance(log, expected):
    """From the lines that the tests logged: a table, and the expected stores without a line. A store is expected by the
    scheme of its URL, or by the first word of what it calls itself, as in `FerretDB 1.24.2`."""
    runs, products = {}, set()
    for line in log.splitlines():
        url, version, counts = line.split("\t")
        scheme = url.partition(":")[0]
        product = re.split(r", | \(|;", version)[0]
        products.add(product.partition(" ")[0].lower())
        # Drop the place of the store, but keep its options.
        options = url.partition("?")[2]
        runs.setdefault(scheme, []).append((f"{scheme}?{options}" if options else scheme, product, counts))
    order = [*expected, *sorted(set(runs) - set(expected))]
    rows = [(f"{name}  {product}", counts) for scheme in order for name, product, counts in sorted(runs.get(scheme, []))]
    width = max((len(name) for name, _ in rows), default=0)
    table = [f"conformance  {name:<{width}}  {counts}" for name, counts in rows]
    return table, [name for name in expected if name not in runs and name not in products]


def still_running(binary, ended):
    """The tests of a binary that have begun but not ended, each with the state of its thread.

    A thread has the name of its test, of which the kernel keeps 15 bytes."""
    listed = subprocess.run(
        [os.readlink(f"/proc/{binary}/exe"), "--list"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60
    )
    names = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
    left = {name.encode()[:15]: name for name in names if name not in ended}
    running = []
    for task in Path(f"/proc/{binary}/task").iterdir():
        name = left.get((task / "comm").read_bytes().rstrip(b"\n"))
        if name:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            running.append(f"{name} (thread in state {state}, waits in {(task / 'wchan').read_text().strip('0') or 'nothing'})")
    return sorted(running)


def give_up(binary, counter, patience):
    """Kills a test binary, and lists its tests that had not ended.

    If it cannot be killed, because it waits in the kernel, the script ends."""
    try:
        running = still_running(binary, counter.ended)
    except (OSError, subprocess.TimeoutExpired):
        running = []
    print(f"no test has ended for {patience} s; killing {binary}. Still running:", flush=True)
    for name in running or ["no test with its own thread"]:
        counter.failures.append(f"{name}, not ended after {patience} s without output")
        print(f"    {name}", flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(binary, signal.SIGKILL)
    began = time.monotonic()
    while Path(f"/proc/{binary}/exe").exists():
        if time.monotonic() - began > 30:
            print("\n".join(["the test binary cannot be killed", *summary([counter], 1)[0]]), flush=True)
            os._exit(1)
        time.sleep(0.1)


def watch(binary, counter, patience, over):
    """Runs in a separate thread until the binary ends, and kills a test binary that is silent for too long."""
    while not over.wait(1):
        heard = counter.heard
        if heard is not None and time.monotonic() - heard > patience:
            counter.heard = None
            give_up(binary, counter, patience)


def run(command, folder, environment, patience):
    """Runs a test binary to its end. Returns its counter, its exit code, the output to show, and how long it took."""
    counter, shown, over, began = Counter(), [], threading.Event(), time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment) as process:
        threading.Thread(target=watch, args=(process.pid, counter, patience, over), daemon=True).start()
        for line in process.stdout:
            if counter.line(line.rstrip("\n")):
                shown.append(line)
    over.set()
    return counter, process.returncode, "".join(shown), time.monotonic() - began


def binaries(cargo):
    """Builds the tests. Returns each binary with the folder of its package, and cargo's exit code."""
    found = []
    command = [*cargo, "--no-run", "--message-format", "json-render-diagnostics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            message = json.loads(line)
            if message.get("executable") and message["profile"]["test"]:
                found.append((message["executable"], Path(message["manifest_path"]).parent))
    return sorted(found, key=lambda each: -os.path.getsize(each[0])), process.returncode


def self_test():
    """Tests the counter with output that has one case of each kind."""
    counter = Counter()
    shown = [
        line
        for line in """running 4 tests
test a ... ok
test b ... ok <1.500s>
test c ... FAILED
test soak_d ... ignored, soak: takes an hour

successes:

---- b stdout ----
some noise
soak: 3 kills
skipped: no tmpfs here

successes:
    a
    b

failures:

---- c stdout ----
skipped: is what the failure printed
thread 'c' (7) panicked at src/lib.rs:3:5:
assertion failed
note: more

failures:
    c

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
running 1 test
test src/lib.rs - (line 3) ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s""".splitlines()
        if counter.line(line)
    ]
    assert "some noise" not in shown and {"skipped: no tmpfs here", "soak: 3 kills"} <= set(shown)
    lines, code = summary([counter], 101)
    assert lines[-1] == "2 passed, 1 failed, 2 skipped" and code == 1, lines
    assert "skipped  b: no tmpfs here" in lines and "skipped  soak_d: soak: takes an hour" in lines, lines
    assert "failed   c: thread 'c' (7) panicked at src/lib.rs:3:5: assertion failed" in lines, lines
    assert slowest([counter], 20) == ["    1.5 s  b"], counter.times
    assert summary([Counter()], 101)[1] == 1 and summary([Counter()], 0)[1] == 1
    log = (
        "redb:/tmp/x?cache=1MiB\tredb 3.1\t5 passed, 0 failed, 1 not supported\n"
        "redb:/tmp/y\tredb 3.1\t6 passed, 0 failed, 0 not supported\n"
        "mongodb:y\tFerretDB 1.24.2, which is not MongoDB\t4 passed, 2 failed, 0 not supported\n"
    )
    table, missing = conformance(log, ["redis", "redb", "ferretdb"])
    assert missing == ["redis"] and table == [
        "conformance  redb  redb 3.1             6 passed, 0 failed, 0 not supported",
        "conformance  redb?cache=1MiB  redb 3.1  5 passed, 0 failed, 1 not supported",
        "conformance  mongodb  FerretDB 1.24.2   4 passed, 2 failed, 0 not supported",
    ], (table, missing)
    counter = Counter()
    counter.passed = 3
    lines, code = summary([counter], 0, table, missing)
    assert lines[-2:] == ["the conformance suite did not finish on redis", "3 passed, 1 failed, 0 skipped"]
    assert code == 1 and lines[: len(table)] == table
    # A silent child is killed, and the code that waits for it continues.
    counter = Counter()
    assert counter.line("running 1 test") and counter.heard is not None
    assert counter.line("test a ... ok") and counter.ended == {"a"}
    counter.heard -= 10
    with contextlib.redirect_stdout(io.StringIO()), subprocess.Popen(["sleep", "60"]) as child:
        over = threading.Event()
        threading.Thread(target=watch, args=(child.pid, counter, 5, over), daemon=True).start()
        while child.poll() is None:
            time.sleep(0.01)
        over.set()
    assert child.returncode == -signal.SIGKILL and counter.failures, (child.returncode, counter.failures)
    assert summary([counter], 101)[0][-1] == "0 passed, 1 failed, 0 skipped", counter.failures


def main():
    self_test()
    command = sys.argv[1:]
    options = {"--stores": "", "--patience": "600", "--at-once": "1", "--slowest": "0"}
    while command[:1] and command[0] in options:
        options[command[0]] = command[1]
        command = command[2:]
    if not command:
        sys.exit("give the command to run: scripts/count-tests.py cargo test --workspace")
    at = command.index("--") if "--" in command else len(command)
    cargo, arguments = command[:at], [*command[at + 1 :], "--show-output"]
    patience, stores = int(options["--patience"]), [store for store in options["--stores"].split(",") if store]
    most = int(options["--slowest"])
    timed = ["-Z", "unstable-options", "--report-time"] if most else []
    found, code = binaries(cargo)
    counters = []
    with tempfile.NamedTemporaryFile(prefix="storebench-conformance-") as log, ThreadPoolExecutor(int(options["--at-once"])) as pool:
        environment = os.environ | {"STOREBENCH_CONFORMANCE_LOG": log.name} | ({"RUSTC_BOOTSTRAP": "1"} if most else {})

        def one(binary, folder):
            return binary, *run([binary, *arguments, *timed], folder, environment | {"CARGO_MANIFEST_DIR": str(folder)}, patience)

        for ended in as_completed([pool.submit(one, *each) for each in found]):
            binary, counter, its_code, shown, took = ended.result()
            print(f"     Running {binary} ({took:.0f} s)\n{shown}", end="", flush=True)
            counters.append(counter)
            code = code or its_code
        # Documentation tests are built when they run.
        environment.pop("RUSTC_BOOTSTRAP", None)
        if not any(option in cargo for option in ("--test", "--lib", "--bins", "--tests")):
            counter, its_code, shown, _ = run([*cargo, "--doc", "--no-fail-fast", "--", *arguments], None, environment, patience)
            print(shown, end="", flush=True)
            counters.append(counter)
            code = code or its_code
        table, missing = conformance(log.read().decode(), stores)
    lines, code = summary(counters, code, table, missing)
    lines[-1:-1] = slowest(counters, most)
    print()
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
