"""OpenSSH 9.2 of Debian, server and client: a test controls a server over it."""

from . import debian

VERSION = "1:9.2p1-"
BINARIES = ["usr/sbin/sshd", "usr/bin/ssh", "usr/bin/ssh-keygen"]


def install():
    """The unpacked packages."""
    packages = {"openssh-server": VERSION, "openssh-client": VERSION}
    return debian.installed("openssh-9.2", packages, BINARIES)
