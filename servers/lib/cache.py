"""The cache folder of installed servers. An installation is complete or does not exist."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from .fault import Fault


def folder():
    """The cache folder.

    It is `$XDG_CACHE_HOME/storebench-servers` or `~/.cache/storebench-servers`. For root without
    `XDG_CACHE_HOME` it is `/var/cache/storebench-servers`, because PostgreSQL refuses to run as root
    and other users cannot read root's home.
    """
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return pathlib.Path(named).absolute() / "storebench-servers"
    if os.geteuid() == 0:
        return pathlib.Path("/var/cache/storebench-servers")
    return pathlib.Path.home() / ".cache" / "storebench-servers"


def say(text):
    """Prints progress on stderr, because stdout is for the URL."""
    print(f"servers: {text}", file=sys.stderr, flush=True)


def installed(name, build, whole=lambda folder: True):
    """The folder of an installed server. Calls `build(folder)` if it does not exist, or if `whole(folder)` is false.

    `name` contains the version, so that each version has its own folder. The folder is built under another name and
    then renamed, so it is always complete. Two installations at the same time wait for each other.
    """
    place = folder() / name
    if place.is_dir() and whole(place):
        return place
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Fault(f"cannot make the cache folder {folder()}: {error.strerror}; set XDG_CACHE_HOME") from None
    with locked(name):
        if place.is_dir():
            if whole(place):
                return place
            shutil.rmtree(place)
        say(f"installing {name} into {folder()}")
        unfinished = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder()))
        try:
            build(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(place)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return place


@contextlib.contextmanager
def locked(name):
    """Holds the lock of an installation. The kernel releases it when this process ends."""
    with open(folder() / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest(file):
    """A short hash of a file, for the name of what is installed by it."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


def run(command, **options):
    """Runs a command of an installation. Shows its output only if it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    except FileNotFoundError:
        raise Fault(f"{command[0]} is not installed on this machine; install it") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-4000:]
        raise Fault(f"`{' '.join(map(str, command))}` ended with code {done.returncode}:\n{said}")
    return done.stdout


def pip_download(requirement, file, sha256, into, *platform):
    """Downloads one distribution from the Python Package Index. pip rejects one with another hash."""
    listed = into / f"{file}.txt"
    listed.write_text(f"{requirement} --hash=sha256:{sha256}\n")
    kind = ["--only-binary", ":all:", *platform] if file.endswith(".whl") else ["--no-binary", ":all:"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    run([*pip, "--no-deps", "--require-hashes", *kind, "--dest", str(into), "-r", str(listed)])
    return into / file
