"""A service in a process of its own that may open few files, for tests that take all of them.

    with small_process(layout, files=256) as process:
        process.address
        process.take_all_files()       # until it gives them back, the process can open nothing
        process.give_back()

It gives itself commands by lines on standard input, and ends with it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anabranch.results.layout import Layout
from anabranch.service.job_service import JobService, Limits
from anabranch.service.server import serving


@dataclass
class SmallProcess:
    address: str
    process: subprocess.Popen[str]

    def take_all_files(self) -> None:
        self._tell("take")

    def give_back(self) -> None:
        self._tell("give")

    def _tell(self, command: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == command

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextmanager
def small_process(layout: Layout, files: int) -> Iterator[SmallProcess]:
    command = [sys.executable, "-m", "tests.service.small_process", str(layout.root), str(files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield SmallProcess(process.stdout.readline().strip(), process)
        finally:
            process.stdin.close()


def _serve(root: Path, files: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    service = JobService(Layout(root), dict, dict, Limits(requests_per_second=1_000))
    taken: list[int] = []
    with serving(service, "127.0.0.1", 0) as address:
        print(address, flush=True)
        for line in sys.stdin:
            try:
                while line.strip() == "take":
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
            if line.strip() == "give":
                while taken:
                    os.close(taken.pop())
            print(line.strip(), flush=True)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
