"""Real documents from vega-datasets 2.2.0 on npm: films, earthquakes and airports."""

import shutil

from . import cache, npm

FILES = ["movies.json", "earthquakes.json", "airports.csv"]


def install():
    """The folder with the three files. The rest of the package is deleted."""

    def build(folder):
        npm.install("vega-datasets", folder)
        for name in FILES:
            (folder / "node_modules/vega-datasets/data" / name).rename(folder / name)
        shutil.rmtree(folder / "node_modules")

    return cache.installed("vega-datasets-2.2.0", build)
