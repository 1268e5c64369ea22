"""Debian packages, unpacked into a separate folder.

Nothing is installed: no service starts, no file of the system changes, root is not needed. APT checks its downloads
against the archive's signed index. The archive keeps only the newest revision of a package, so only the upstream
version is pinned.
"""

import functools
import os
import pathlib
import re
import subprocess
import tempfile

from . import cache
from .fault import Fault

# The package of each shared library, for machines that lack it.
LIBRARIES = {
    "libaio.so.1": "libaio1",
    "libatomic.so.1": "libatomic1",
    "libaudit.so.1": "libaudit1",
    "libbsd.so.0": "libbsd0",
    "libcap-ng.so.0": "libcap-ng0",
    "libcap.so.2": "libcap2",
    "libcom_err.so.2": "libcom-err2",
    "libcrypto.so.3": "libssl3",
    "libedit.so.2": "libedit2",
    "libevent-2.1.so.7": "libevent-2.1-7",
    "libffi.so.8": "libffi8",
    "libgcrypt.so.20": "libgcrypt20",
    "libgmp.so.10": "libgmp10",
    "libgnutls.so.30": "libgnutls30",
    "libgpg-error.so.0": "libgpg-error0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libhashkit.so.2": "libhashkit2",
    "libhogweed.so.6": "libhogweed6",
    "libicudata.so.72": "libicu72",
    "libicui18n.so.72": "libicu72",
    "libicuuc.so.72": "libicu72",
    "libidn2.so.0": "libidn2-0",
    "libjemalloc.so.2": "libjemalloc2",
    "libk5crypto.so.3": "libk5crypto3",
    "libkeyutils.so.1": "libkeyutils1",
    "libkrb5.so.3": "libkrb5-3",
    "libkrb5support.so.0": "libkrb5support0",
    "liblber-2.5.so.0": "libldap-2.5-0",
    "libldap-2.5.so.0": "libldap-2.5-0",
    "libluajit-5.1.so.2": "libluajit-5.1-2",
    "liblz4.so.1": "liblz4-1",
    "liblzf.so.1": "liblzf1",
    "liblzma.so.5": "liblzma5",
    "libmariadb.so.3": "libmariadb3",
    "libmd.so.0": "libmd0",
    "libmemcached.so.11": "libmemcached11",
    "libnettle.so.8": "libnettle8",
    "libp11-kit.so.0": "libp11-kit0",
    "libpam.so.0": "libpam0g",
    "libpq.so.5": "libpq5",
    "libreadline.so.8": "libreadline8",
    "libsasl2.so.2": "libsasl2-2",
    "libssl.so.3": "libssl3",
    "libsystemd.so.0": "libsystemd0",
    "libtasn1.so.6": "libtasn1-6",
    "libunistring.so.2": "libunistring2",
    "liburing.so.2": "liburing2",
    "libwrap.so.0": "libwrap0",
    "libxml2.so.2": "libxml2",
    "libxslt.so.1": "libxslt1.1",
    "libzstd.so.1": "libzstd1",
}


def unpack(packages, binaries, into):
    """Unpacks packages into `into`, with the libraries that `binaries` (paths in `into`) lack.

    `packages` maps a name to the beginning of the required version. `NAME/bookworm-backports` is a package of Debian's
    backports, as for APT.
    """
    for package, version in packages.items():
        _unpack(package, version, into)
    asked = set()
    while lacking := _lacking(into, binaries):
        needed = {LIBRARIES[library] for library in lacking if library in LIBRARIES} - asked
        if not needed:
            raise Fault(f"{', '.join(sorted(lacking))} not found; this script knows only the libraries of Debian 12")
        asked |= needed
        for package in sorted(needed):
            _unpack(package, "", into)


def unpack_with_needs(package, into):
    """Unpacks a package with all dependencies that this machine lacks. Does not unpack what the machine has, above
    all not the C library."""
    options = []
    if subprocess.run(["apt-cache", "show", package], capture_output=True).returncode != 0:
        options = _own_lists(package)
    simulated = ["apt-get", *options, "--quiet", "--simulate", "--no-install-recommends", "install", package]
    said = cache.run(simulated, env={**os.environ, "LC_ALL": "C"})
    needed = re.findall(r"^Inst (\S+) ", said, re.M)
    if not needed:
        raise Fault(f"{package} is installed on this machine, but not in the PATH; add it to the PATH")
    for name in needed:
        _unpack(name, "", into)


def installed(name, packages, binaries):
    """The folder of unpacked packages. If the machine has since lost libraries that they need, unpacks them
    again."""
    build = lambda folder: unpack(packages, binaries, folder)
    return cache.installed(name, build, whole=lambda folder: not _lacking(folder, binaries))


def libraries(root):
    """The folders of libraries in an unpacked tree, for LD_LIBRARY_PATH; empty if there are none."""
    return ":".join(str(found) for found in _library_folders(root))


def environment(root):
    """The environment in which programs of an unpacked tree find their libraries."""
    return {**os.environ, "LD_LIBRARY_PATH": libraries(root), "LC_ALL": "C.UTF-8"}


def _library_folders(root):
    return sorted({path.parent for path in root.rglob("lib*.so.*") if "postgresql" not in path.parts})


def _lacking(root, binaries):
    lacking = set()
    for binary in binaries:
        said = cache.run(["ldd", str(root / binary)], env=environment(root))
        lacking |= set(re.findall(r"^\s*(\S+) => not found", said, re.M))
    return lacking


def _unpack(package, version, into):
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".deb-") as download:
        # As root, APT downloads as another user, who needs access.
        pathlib.Path(download).chmod(0o777)
        _download(package, version, download)
        for deb in pathlib.Path(download).glob("*.deb"):
            cache.run(["dpkg", "-x", str(deb), str(into)])


def _download(package, version, download):
    """Downloads with the machine's package lists or, if they are missing or too old, with our own lists."""
    package, _, release = package.partition("/")
    refused = None
    for own in [False, True]:
        options = [] if not own else _lists_of(release, package) if release else _own_lists(package)
        said = subprocess.run(["apt-cache", *options, "madison", package], capture_output=True, text=True)
        offered = [line.split("|")[1].strip() for line in said.stdout.splitlines() if line.count("|") >= 2]
        wanted = next((found for found in offered if found.startswith(version)), None)
        if wanted is None:
            refused = f"version {version}* is needed, but APT offers {offered or 'none'}"
            continue
        get = ["apt-get", *options, "--quiet", "download", f"{package}={wanted}"]
        done = subprocess.run(get, cwd=download, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return
        refused = done.stderr.strip()
    raise Fault(f"{package}: {refused}")


@functools.cache
def _fetch(state, *sources):
    options = ["-o", f"Dir::State::Lists={state / 'lists'}", "-o", f"Dir::Cache={state}", "-o", "APT::Sandbox::User=root"]
    options += sources
    for folder in ["lists/partial", "archives/partial"]:
        (state / folder).mkdir(parents=True, exist_ok=True)
    # Servers that start at the same time share the lists.
    with cache.locked("apt"):
        cache.run(["apt-get", *options, "--quiet", "update"])
    return options


def _own_lists(package):
    """Options of APT to use lists that are fetched once into the cache folder."""
    cache.say(f"the package lists of this machine do not work for {package}; fetching our own lists")
    return _fetch(cache.folder() / "apt")


def _lists_of(release, package):
    """Options of APT to use the lists of a release that the machine's sources lack, from their mirror of Debian 12."""
    said = cache.run(["apt-get", "--print-uris", "update"])
    mirror = re.search(r"^'(\S+)/dists/bookworm/InRelease'", said, re.M)
    if mirror is None:
        raise Fault(f"{package} is in {release}, but APT has no sources of Debian 12; add them or {release}")
    cache.say(f"{package} is in {release}; fetching its lists")
    state = cache.folder() / f"apt-{release}"
    state.mkdir(parents=True, exist_ok=True)
    sources = state / "sources.list"
    sources.write_text(f"deb {mirror[1]} {release} main\n")
    return _fetch(state, "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=-")
