"""Chromium from Debian, in which tests open reports: the machine's own, or unpacked with its dependencies."""

import pathlib
import shutil

from . import cache, debian

# The program that a test starts, wherever the browser is.
LAUNCHER = "chromium"


def install():
    """A folder with the program `chromium`, which starts the browser with its own libraries and fonts."""
    own = next(filter(None, map(shutil.which, NAMES)), None)
    if own:
        # Its path may change, so each path has its own folder.
        name = "chromium-of-the-machine" + own.replace("/", "-")
        return cache.installed(name, lambda folder: _launcher(folder, own, ""))
    return cache.installed(UNPACKED, _unpack)


# Its names in distributions.
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


UNPACKED = "chromium-unpacked-2"


def _unpack(folder):
    debian.unpack_with_needs("chromium", folder)
    # It is moved there when it is complete.
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
    # Some libraries have no version number in their names, and are in separate folders.
    found = {path.parent for path in folder.rglob("lib*.so*") if "chromium" not in path.relative_to(folder).parts}
    libraries = ":".join(str(place / of.relative_to(folder)) for of in sorted(found))
    settings = f'export FONTCONFIG_FILE="{place}/fonts.conf" LD_LIBRARY_PATH="{libraries}"\n'
    _launcher(folder, f"{place}/usr/lib/chromium/chromium", settings)


def _launcher(folder, program, settings):
    launcher = pathlib.Path(folder) / LAUNCHER
    launcher.write_text(f'#!/bin/sh\n{settings}exec "{program}" "$@"\n')
    launcher.chmod(0o755)
