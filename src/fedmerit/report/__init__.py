"""The report page: one file that opens anywhere, offline, and asks nobody for anything.

::

    source.py   a ledger, or the folder of a run  ->  RunView
    data.py     RunView  ->  numbers for the page (ranking.py, cliques.py)
    page.py     numbers, Plotly and assets/       ->  report.html
    watch.py    again and again, while a run is on
"""

from fedmerit.report.page import write_report
from fedmerit.report.source import RunView, open_source

__all__ = ["RunView", "open_source", "write_report"]
