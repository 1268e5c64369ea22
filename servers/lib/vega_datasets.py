"""Real documents of vega-datasets 2.2.0 of npm: films, earthquakes and airports."""

import shutil

from . import cache, npm

FILES = ["movies.json", "earthquakes.json", "airports.csv"]


def install():
    """The folder with the three files; the rest of the package is not kept."""

    def build(folder):
        npm.install("vega-datasets", folder)
        for name in FILES:
            (folder / "node_modules/vega-datasets/data" / name).rename(folder / name)
        shutil.rmtree(folder / "node_modules")

    return cache.installed("vega-datasets-2.2.0", build)
