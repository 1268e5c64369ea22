"""OpenSSH 9.2 from Debian, server and client, with which a test controls a server."""

from . import debian

VERSION = "1:9.2p1-"
BINARIES = ["usr/sbin/sshd", "usr/bin/ssh", "usr/bin/ssh-keygen"]


def install():
    """The unpacked packages."""
    packages = {"openssh-server": VERSION, "openssh-client": VERSION}
    return debian.installed("openssh-9.2", packages, BINARIES)
