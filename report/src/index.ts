// The script of an index of runs, which has tables and no charts.

import { serveTables } from "./tables";

serveTables(document);
document.documentElement.dataset.drawn = "all";
