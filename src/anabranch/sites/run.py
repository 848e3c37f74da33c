"""Runs sites: all of them in one Spark session, or one of them where it belongs.

    run_sites(planner, ["plant1", "office"], once=True)

With `once` a site ends its own streams when all that is there has been read, and stops when every flow that
it needs has ended. Without, it goes on until it is stopped, and looks for changes of the plan meanwhile.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

from anabranch.families.warm_up import start_compiling
from anabranch.model.errors import RunError
from anabranch.results.layout import HIDDEN
from anabranch.sites.network_file import NetworkFile
from anabranch.sites.planner import NetworkPlanner
from anabranch.sites.site import SiteEngine
from anabranch.spark.engine import END_S
from anabranch.spark.session import make_session

#: How often sites look for pieces to pass on, and for a changed plan.
LOOK_S = 0.1
#: A site has less to keep in memory than a job on a machine of its own.
SPARK = {"spark.driver.memory": "1g"}


def run_sites(planner: NetworkPlanner, names: Sequence[str], once: bool, session: Any = None) -> None:
    """Runs these sites in one Spark session: the one that is given, or one of their own."""
    file = planner.file
    plan = _WatchedPlan(planner)
    start_compiling({query.family for site in names for query in plan.sites[site].queries.values()})
    log = file.site(names[0]) / HIDDEN / "spark.log"
    spark = session or make_session(f"anabranch {file.path.stem}", SPARK, log=log, short=once)
    with ExitStack() as stack:
        sites = [stack.enter_context(SiteEngine(spark, file, name)) for name in names]
        for site in sites:
            site.install(plan.sites[site.name])
        if once:
            _run_to_the_end(sites)
        else:
            _run_on(sites, plan)
        for site in sites:
            site.engine.stop(END_S if once else 2.0)


def _run_to_the_end(sites: Sequence[SiteEngine]) -> None:
    while not all(site.has_ended() for site in sites):
        ready = [site.run_ready() for site in sites]
        for site in sites:
            site.tend()
        if not any(ready):
            time.sleep(LOOK_S)


def _run_on(sites: Sequence[SiteEngine], plan: _WatchedPlan) -> None:
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    for site in sites:
        site.start()
    while not stopped:
        if plan.has_changed():
            for site in sites:
                site.install(plan.sites[site.name])
                site.start()
        for site in sites:
            site.tend()
        time.sleep(LOOK_S)


class _WatchedPlan:
    """What every site runs, as the network's catalog has it."""

    def __init__(self, planner: NetworkPlanner) -> None:
        self.planner, self.catalog = planner, planner.catalog(create=False)
        self.version = self.catalog.version()
        self.sites = planner.state().deployments()

    def has_changed(self) -> bool:
        version = self.catalog.version()
        if version == self.version:
            return False
        self.version, self.sites = version, self.planner.state().deployments()
        return True


# --- one process per site ---


def run_processes(file: NetworkFile, once: bool) -> None:
    """Starts every site in a process of its own, and waits for them. Where one fails, or this process is told
    to stop, the others stop.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    command = [sys.executable, "-m", "anabranch", "sites", "run", str(file.path)]
    processes = {
        name: subprocess.Popen([*command, name, *(["--once"] if once else [])]) for name in file.folders
    }
    try:
        _wait(processes)
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
        for process in processes.values():
            process.wait()


def _wait(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    while any(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            if process.poll() not in (None, 0):
                raise RunError(f"site {name} failed with exit status {process.returncode}")
        time.sleep(LOOK_S)
