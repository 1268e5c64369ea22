"""What checks workflows and shell scripts: actionlint from its Go module, and Debian's ShellCheck."""

from . import cache, debian, go

VERSION = "v1.7.12"
SUM = "h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY="


def install():
    """The programs `actionlint` and `usr/bin/shellcheck`."""

    def build(folder):
        debian.unpack({"shellcheck": "0.9.0-"}, ["usr/bin/shellcheck"], folder)
        go.build(f"github.com/rhysd/actionlint@{VERSION}", SUM, "./cmd/actionlint", folder / "actionlint")

    return cache.installed(f"workflow-tools-{VERSION}", build)
