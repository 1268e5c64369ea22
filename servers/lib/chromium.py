"""Chromium of Debian, in which the tests look at reports: the machine's own, or unpacked with what it needs."""

import pathlib
import shutil

from . import cache, debian

# What a test starts, wherever the browser is.
LAUNCHER = "chromium"


def install():
    """A folder with the program `chromium`, which starts the browser with its own libraries and fonts."""
    own = next(filter(None, map(shutil.which, NAMES)), None)
    if own:
        # Where it is may change, so that another place is another folder.
        name = "chromium-of-the-machine" + own.replace("/", "-")
        return cache.installed(name, lambda folder: _launcher(folder, own, ""))
    return cache.installed(UNPACKED, _unpack)


# What distributions call it.
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


UNPACKED = "chromium-unpacked-2"


def _unpack(folder):
    debian.unpack_with_needs("chromium", folder)
    # It is moved there once it is whole.
    place = cache.folder() / UNPACKED
    fonts = f"""<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{place}/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{place}/fonts-cache</cachedir>
<alias><family>sans</family><prefer><family>Liberation Sans</family><family>DejaVu Sans</family></prefer></alias>
<alias><family>system-ui</family><prefer><family>Liberation Sans</family><family>DejaVu Sans</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>Liberation Sans</family><family>DejaVu Sans</family></prefer></alias>
<alias><family>monospace</family><prefer><family>Liberation Mono</family><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
    (folder / "fonts.conf").write_text(fonts)
    # Some libraries have no number behind their name, and stand in folders of their own.
    found = {path.parent for path in folder.rglob("lib*.so*") if "chromium" not in path.relative_to(folder).parts}
    libraries = ":".join(str(place / of.relative_to(folder)) for of in sorted(found))
    settings = f'export FONTCONFIG_FILE="{place}/fonts.conf" LD_LIBRARY_PATH="{libraries}"\n'
    _launcher(folder, f"{place}/usr/lib/chromium/chromium", settings)


def _launcher(folder, program, settings):
    launcher = pathlib.Path(folder) / LAUNCHER
    launcher.write_text(f'#!/bin/sh\n{settings}exec "{program}" "$@"\n')
    launcher.chmod(0o755)
