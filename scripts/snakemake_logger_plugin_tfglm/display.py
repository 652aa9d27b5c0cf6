"""How a run is shown: by a line that keeps changing on a terminal, by a line for each stage elsewhere."""

import sys

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from snakemake_logger_plugin_tfglm.run import RunProgress, RunStage


class Lines:
    """For files and pipes: no control characters."""

    def begin(self, run: RunProgress) -> None:
        """Show this run from now on."""
        self._run = run

    def enter(self, stage: RunStage) -> None:
        """The first job of a stage has begun."""
        jobs = self._run.jobs_of_stages[stage]
        self.say(f"{stage.name}: {jobs} job{'s' if jobs != 1 else ''}")

    def say(self, text: str) -> None:
        """Lines that stay."""
        print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave nothing but the lines that stay; may be called again."""


class Bar:
    """The same for terminals: stage, bar, finished and total jobs, rows per second, time left.

    It has only one line, because jobs write to the terminal too: each of their lines first clears this line
    (`tfglm.command`), which is then drawn again below. Rich prints the output of this process above it.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: Live | None = None

    def begin(self, run: RunProgress) -> None:
        self.end()
        self._live = Live(
            get_renderable=lambda: line(run, self._console.width),
            console=self._console,
            refresh_per_second=2,
            transient=True,
            # In a file or a pipe it is printed unchanged.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start(refresh=True)

    def enter(self, stage: RunStage) -> None:
        pass

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def line(run: RunProgress, width: int) -> Table:
    """What `Bar` shows of a run now."""
    facts = [f"{run.done} of {run.jobs} jobs"]
    if rows := run.rows_a_second():
        facts.append(f"{rows / 1e6:.1f} M rows/s" if rows >= 100_000 else f"{rows:,} rows/s")
    if (seconds := run.seconds_left()) is not None:
        minutes, seconds = divmod(round(seconds), 60)
        facts.append(f"{minutes}:{seconds:02d} left")
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for _ in range(2):
        grid.add_column(no_wrap=True)
    grid.width = width - 1
    grid.add_row(run.stage(), ProgressBar(total=1, completed=run.share(), width=max(4, width // 8)), ", ".join(facts))
    return grid
