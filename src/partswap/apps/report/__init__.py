"""The report: what one or several runs found, as one page to look at, that needs no server and no network.

`collect_runs` reads runs, `collect_demo` takes what the demo found; `write_report` writes the page.
"""

from partswap.apps.report.collect import collect_runs
from partswap.apps.report.demo import collect_demo
from partswap.apps.report.model import ReportData
from partswap.apps.report.page import write_report

__all__ = ["ReportData", "collect_demo", "collect_runs", "write_report"]
