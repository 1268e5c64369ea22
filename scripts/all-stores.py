#!/usr/bin/env python3
"""Runs two built-in studies on every store that installs on one machine, and leaves one page with the results.

    scripts/all-stores.py [--quick] [--out DIR] [--only NAME,…]

Needs the program: STOREBENCH=PATH, else that of `cargo build --release`. Installs servers into the cache of `servers/`.

Every server is started once, and paused (SIGSTOP) while another store is measured. So it is as warm as a server that
has run for a while, and takes memory, but no processor time and no disk. A server that idled would still work on what
its last trial left. One that was started for each trial would be measured cold.
"""

import argparse
import contextlib
import html
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "servers"))

from lib import process
from lib.fault import Fault

EMBEDDED = {"sqlite": "sqlite:{data}/sqlite.db", "fjall": "fjall:{data}/fjall", "redb": "redb:{data}/redb"}
# Options of servers/start.
SYNCED = ["appendonly yes", "appendfsync always"]
JAVA = ["-Xms1g", "-Xmx1g"]
SERVERS = {
    "postgres": [],
    "mariadb": [],
    "redis": SYNCED,
    "valkey": SYNCED,
    "ravendb": [],
    "ferretdb": [],
    "opensearch": JAVA,
    # Tests start it with little memory and half a compiler, because many servers run at once there.
    "cassandra": [
        *["commitlog_sync: batch", "commitlog_total_space: 1024MiB", "file_cache_size: 256MiB"],
        *["memtable_heap_space: 256MiB", "memtable_offheap_space: 256MiB"],
        *["concurrent_reads: 32", "concurrent_writes: 32"],
        *[*JAVA, "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4"],
    ],
    "memcached": ["-m 2048"],
}
# Guarantees nothing, so the studies refuse it beside the others. It has reports of its own.
UNSAFE = ["memcached"]

# With --quick: enough to show that everything works, and no more.
QUICK = {
    "bulk-insert": [
        *["--scale=0.0005", "--set=collections.inserted.count=400_000", "--set=phases.insert.settle=0s"],
        *["--set=phases.read.operations=50", "--set=phases.query.operations=20"],
        *['--set=factors={ "phases.insert.batch" = [100, 10] }', "--set=repeats=1"],
    ],
    "reading-list": [
        *["--scale=0.000005", "--set=phases.load.settle=0s", "--set=repeats=1"],
        *(f"--set=phases.{phase}.duration=200ms" for phase in ["first-reads", "by-key", "by-user", "in-book"]),
        '--set=factors={ "phases.*.rate" = [100] }',
    ],
}

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>All stores on one machine</title>
<style>
body {{ margin: 0 auto; max-width: 64rem; padding: 1rem 1.2rem 3rem; font: 15px/1.5 system-ui, sans-serif }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.2rem; margin-top: 2.2rem }} li {{ margin: .3rem 0; max-width: 56rem }}
div {{ overflow-x: auto }} svg {{ display: block; width: 100%; min-width: 34rem; max-width: 56rem; height: auto }}
summary {{ cursor: pointer }} table {{ border-collapse: collapse; margin: .6rem 0; font-size: .9rem }}
td, th {{ padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #8886; text-align: left; vertical-align: top }}
td {{ min-width: 7rem }} a {{ color: light-dark(#0b57a8, #7db8f0) }}
@media (max-width: 40rem) {{
  tr {{ display: block; padding: .5rem 0; border-bottom: 1px solid #8886 }} tr:first-child {{ display: none }}
  td {{ display: block; padding: 0; border: 0 }} td:first-child {{ font-weight: 650 }}
  td:last-child:not(:empty)::before {{ content: "left out or failed: " }}
}}
</style>
<h1>All stores on one machine</h1>
<p><b>Read this before any figure.</b>
<ul>
{cautions}
</ul>
{runs}
</html>
"""
TRIAL = "<b>Made with --quick:</b> a few hundred documents, one round. It shows the page. Its figures mean nothing."
CAUTIONS = """
<b>One machine.</b> Client and store share {machine}. A store that needs much processor time takes it from the client.
An embedded store has no network. Other machines give other ratios.
<b>The guarantees differ.</b> The tables below say what an acknowledged write survives on each store. A store that
syncs each write does more work than one that does not.
<b>One node of each.</b> Nothing is replicated. No figure says how fast a cluster is, or what it loses.
<b>Servers take turns.</b> All were started before the first trial. While one is measured, the others are paused: they
take memory, but no processor time. Each keeps what its own caches hold from trial to trial.
<b>No store was tuned to this work,</b> but not all run as they are shipped. Settings are those of the starters in
<code>servers/</code>, and: {settings}. The starter of Cassandra is made for tests, in which many servers run at once: it
has a smaller key cache, one compactor, one thread that flushes tables, longer timeouts, and no snapshots of dropped tables.
<b>Versions are those that the starters install.</b> RavenDB 4.1 was released in 2018.
<b>FerretDB runs over SQLite,</b> and ignores the write concern that the tables show: what its writes survive is up to
its SQLite, which syncs each commit unless it is told otherwise.
<b>Not measured: CouchDB, Couchbase Server, DynamoDB, Elasticsearch, MongoDB, MySQL, ScyllaDB.</b> The starters do not
install them. The tests use pouchdb-server for CouchDB and dynalite for DynamoDB; their speed says nothing about the real
ones, so they are left out. FerretDB speaks MongoDB’s protocol; its figures are its own, not MongoDB’s.
<b>memcached keeps nothing</b> when it ends. The studies refuse it beside stores that do, so its reports stand apart.
"""


class Stores:
    """The stores by name, with their servers, which run until `close`."""

    def __init__(self, data):
        self.data, self.urls, self.tables = data, {}, {}

    def start(self, name):
        if name in EMBEDDED:
            self.urls[name] = EMBEDDED[name].format(data=self.data)
            return
        print(f"starting {name}", file=sys.stderr, flush=True)
        folder, port = self.data / name, process.free_port()
        options = [f"--option={option}" for option in SERVERS[name]]
        command = [ROOT / "servers/start", name, "--port", port, "--data", folder, *options]
        started = run(command, end=signal.SIGTERM, stdout=subprocess.PIPE)
        if started.returncode:
            raise Fault(f"{name} did not start; to measure without it, name the other stores with --only")
        self.urls[name] = started.stdout.strip()
        pause = f"'{ROOT}/servers/pause' {name} --data '{folder}'"
        self.tables[name] = f"""
[servers.{name}]
port  = {port}
data  = "{folder}"
start = "{pause} --resume"
stop  = "{pause}"
ready_within = "5m"
"""
        self.signal(name, signal.SIGSTOP)

    def signal(self, name, number):
        for node in process.nodes(self.data / name):
            process.send(self.data / name, node, number)

    def close(self):
        """Stops every server, also one that was still starting."""
        for folder in filter(pathlib.Path.is_dir, self.data.iterdir()):
            # A paused process does not notice that it should end.
            self.signal(folder.name, signal.SIGCONT)
            for node in process.nodes(folder):
                with contextlib.suppress(Fault):
                    process.terminate(folder, node)


class Interrupted(Exception):
    """A signal asked to end."""


def interrupt(*_):
    raise Interrupted


def run(command, end=signal.SIGINT, **options):
    """Runs a command to its end, also if a signal asks to end, which it is then told by the signal `end`.

    It has its own process group, so that a Ctrl-C reaches it once. What it started is in that group and is told, too.
    """
    with subprocess.Popen([str(word) for word in command], text=True, process_group=0, **options) as child:
        asked = False
        while True:
            try:
                out = child.communicate()[0]
                if asked:
                    raise KeyboardInterrupt
                return subprocess.CompletedProcess(command, child.returncode, out)
            except Interrupted:
                asked = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, end)


def measure(program, study, names, stores, out, more):
    """Runs a study on these stores. Returns its exit code."""
    text = subprocess.check_output([program, "studies", study, "--file"], text=True)
    file = out / f"{study}{'-memcached' if names == UNSAFE else ''}.toml"
    file.write_text(text + "".join(stores.tables.get(name, "") for name in names))
    command = [program, "run", file, "--preset=laptop", "--out", out, "--manage-servers", "--skip-unsupported", *more]
    return run([*command, *(f"--store={name}={stores.urls[name]}" for name in names)]).returncode


def section(program, out, folder):
    """What a run found, what each store guaranteed, and what it left out."""
    result = json.loads((folder / "run.json").read_text())
    markdown = subprocess.check_output([program, "report", folder, "--markdown"], text=True)
    title, question, answer = markdown.split("\n\n")[:3]
    alone = {trial["store"] for trial in result["trials"]} == {*UNSAFE}
    title = title.lstrip("# ") + (": memcached alone" if alone else "")
    plain = re.sub(r"\\(.)", r"\1", html.escape(answer)).replace("`", "")
    found, trust = re.fullmatch(r"\*\*(.*?)\*\*(.*)", plain, re.DOTALL).groups()
    picture = out / f"{folder.name}.svg"
    # A run that was interrupted early has no picture.
    subprocess.run([program, "report", folder, "--force", "--picture", picture], capture_output=True)
    rows = {}
    for trial in result["trials"]:
        row = rows.setdefault(trial["store"], {"version": trial["version"], "survives": "", "without": {}})
        for phase in trial["phases"][:1]:
            row["survives"] = f"{phase['durability']['name']}: {phase['durability']['means']}"
        if failure := trial["failure"]:
            row["without"][f"failed in {failure['during']}: {failure['message']}"] = True
    for configuration in result["plan"]["configurations"]:
        for left_out in configuration.get("left_out") or []:
            if configuration["store"] in rows:
                rows[configuration["store"]]["without"][f"{left_out['what']}: {left_out['why']}"] = True
    cells = [(name, row["version"], row["survives"], "; ".join(row["without"])) for name, row in rows.items()]
    table = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell.replace('`', ''))}" for cell in line) for line in cells)
    return f"""<h2>{html.escape(title)}</h2>
<p>{html.escape(question.strip("_"))}
<p><b>{trust.strip()}</b>
<p><a href="{folder.name}/report.html"><b>The report</b></a>, with every figure and every check.
<div>{picture.read_text() if picture.exists() else ""}</div>
<details><summary>The answer in words</summary><p>{found}</details>
<div><table>
<tr><th>store<th>version<th>an acknowledged write survives<th>left out or failed
{table}
</table></div>
"""


def write_page(program, out, quick, failed):
    """The page about the runs in `out`."""
    folders = [file.parent for file in sorted(out.glob("*/run.json"))]
    machine = json.loads((folders[0] / "run.json").read_text())["environment"] if folders else {}
    told = "its processors"
    if machine:
        told = f"{machine['cpus_available']} processors ({machine['cpu_model']}) and"
        told += f" {machine['memory_bytes'] / 2**30:.0f} GiB of memory"
    settings = "; ".join(f"{name}: {', '.join(options)}" for name, options in SERVERS.items() if options)
    cautions = CAUTIONS.format(machine=html.escape(told), settings=html.escape(settings)).strip()
    if quick:
        cautions = f"{TRIAL}\n{cautions}"
    cautions = re.sub("^<b>", "<li><b>", cautions, flags=re.MULTILINE)
    runs = "".join(f"<p><b>{html.escape(line)}</b>\n" for line in failed)
    for folder in folders:
        try:
            runs += section(program, out, folder)
        except Exception:
            traceback.print_exc()
            runs += f"<p><b>{html.escape(folder.name)} cannot be shown: it is incomplete.</b>\n"
    (out / "index.html").write_text(PAGE.format(cautions=cautions, runs=runs))


def main():
    everything = [*EMBEDDED, *SERVERS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few documents and one round: minutes instead of hours")
    parser.add_argument("--out", default="storebench-runs/all-stores", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--only", metavar="NAME,…", help=f"these of {', '.join(everything)}")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else everything
    if unknown := set(names) - set(everything):
        parser.error(f"unknown store {', '.join(sorted(unknown))}; expected some of {', '.join(everything)}")
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    program = shutil.which(os.environ.get("STOREBENCH", f"{target}/release/storebench"))
    if program is None:
        parser.error("no program; build it with `cargo build --release -p storebench`, or give STOREBENCH=PATH")
    out = arguments.out.absolute()
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} has a page or something else already; move it away, or give another --out")
    out.mkdir(parents=True, exist_ok=True)

    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        signal.signal(number, interrupt)
    # Not below --out: PostgreSQL, run as nobody if this is root, may not enter a folder of root.
    data = pathlib.Path(tempfile.mkdtemp(prefix="storebench-all-stores-", dir="/var/tmp"))
    data.chmod(0o711)
    print(f"servers and data are in {data}", file=sys.stderr, flush=True)
    stores, failed, worst = Stores(data), [], 0
    try:
        for name in names:
            stores.start(name)
        safe = [name for name in names if name not in UNSAFE]
        unsafe = [name for name in names if name in UNSAFE]
        for group, more in [(safe, []), (unsafe, ["--durability=none"])]:
            for study in QUICK if group else []:
                code = measure(program, study, group, stores, out, more + QUICK[study] * arguments.quick)
                worst = worst or code
                if code not in (0, 4):
                    failed.append(f"{study} on {', '.join(group)} ended with exit code {code}: its report says why.")
    except (Interrupted, KeyboardInterrupt):
        failed.append("Interrupted: not everything was measured.")
        worst = 130
    except Exception as error:
        traceback.print_exc()
        failed.append(f"Not everything was measured: {error}")
        worst = 1
    finally:
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            signal.signal(number, signal.SIG_IGN)
        print("stopping the servers", file=sys.stderr, flush=True)
        try:
            stores.close()
            shutil.rmtree(data, ignore_errors=True)
        finally:
            write_page(program, out, arguments.quick, failed)
            print(f"page     {out / 'index.html'}")
    sys.exit(worst)


main()
