"""The party's local work: from labels and scores to counts at public decision points."""

from __future__ import annotations

from fheval.counting.chunks import Column
from fheval.counting.counts import Counts
from fheval.counting.grid import Grid, as_grid
from fheval.counting.readers import count_file, read_pair
from fheval.counting.table import UNNAMED, Table
from fheval.counting.table_files import TableColumns, TableFile
from fheval.counting.tally import bin_numbers

__all__ = [
    "UNNAMED",
    "Column",
    "Counts",
    "Grid",
    "Table",
    "TableColumns",
    "TableFile",
    "as_grid",
    "bin_numbers",
    "count_file",
    "read_pair",
]
