"""Chromium of Debian, in which the tests look at reports: the machine's own, or unpacked with what it needs."""

import pathlib
import re
import shutil

from . import cache, debian

# A test starts it as `chromium`, wherever it is.
LAUNCHER = "chromium"


def install():
    """A folder with the program `chromium`, which starts the browser with its own libraries and fonts."""
    return cache.installed("chromium-1", _build)


def _build(folder):
    own = shutil.which("chromium")
    if own:
        _launcher(folder, own, "")
        return
    debian.unpack_with_needs("chromium", folder)
    # It is moved once it is whole.
    place = cache.folder() / "chromium-1"
    fonts = f"""<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{place}/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{place}/fonts-cache</cachedir></fontconfig>
"""
    (folder / "fonts.conf").write_text(fonts)
    libraries = ":".join(str(place / found.relative_to(folder)) for found in debian.library_folders(folder))
    settings = f'export FONTCONFIG_FILE="{place}/fonts.conf" LD_LIBRARY_PATH="{libraries}"\n'
    _launcher(folder, f"{place}/usr/lib/chromium/chromium", settings)


def _launcher(folder, program, settings):
    launcher = pathlib.Path(folder) / LAUNCHER
    launcher.write_text(f'#!/bin/sh\n{settings}exec "{program}" "$@"\n')
    launcher.chmod(0o755)


def version():
    """What it says of itself; a fault where it does not start."""
    said = cache.run([install() / LAUNCHER, "--version"])
    return re.search(r"[\d.]+", said)[0]
