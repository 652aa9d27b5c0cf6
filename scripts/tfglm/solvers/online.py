"""Online solvers: SGD, AdaGrad, Adam and FTRL, on batches of rows and on several workers at a time.

They minimise F(b) = sum of weight * loss(eta, y) / sum of weights + sum of (l2 * b^2 / 2 + l1 * |b|). All levels are free.

1. Each epoch goes through all rows. Shards and blocks are in random order, and each call learns from some blocks.
2. A worker pulls the weights and the state of the solver, takes a step for each batch, and pushes 1/N of the difference, for N
   workers. So the parameter servers hold a moving average of the workers' models (compare Zhang, Choromanska & LeCun, NIPS
   2015). The whole difference would overshoot the optimum N times, because the first calls of an epoch each come near it. With
   a single worker the solver is the textbook method. A synchronous solver starts all calls of a round at the same weights, and
   adds the mean of their differences.
3. The coefficients after an epoch are the mean over its second half (Polyak & Juditsky 1992), or the last coefficients.
4. End after the last epoch or step, or when the loss on the held-out rows has not fallen for some epochs. The result is the
   best epoch.
5. Set the coefficients to zero that an exact fit holds at zero, without changing a prediction. Sum F there, and refuse a fit
   whose F is far above the null model.
"""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfglm.distribute.executor import Shared
from tfglm.engine.optimisers import OPTIMISERS, Penalty
from tfglm.engine.rows import Signature
from tfglm.engine.updates import Schedule, Updates, orders
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers.objective import Objective, Solution
from tfglm.solvers.plain import PlainObjective

FAR_ABOVE_NULL = 2.0
"""Largest accepted deviance, in deviances of the null model. A solver that finds no effect may end a little above 1."""

CALLS_PER_WORKER = 4
"""Smallest number of calls for each worker in an epoch. With fewer, workers would learn too little from each other."""


REPORTS_OF_AN_EPOCH = 20
"""Smallest number of reports in an epoch; fewer points make no curve."""


def solve(objective: PlainObjective, held_out: Workload | None) -> Solution:
    """Learn from the null model on. The result is evaluated, but not certified. The rows of `held_out` decide when to stop
    early. Raises UserError if the solver diverges: its loss is infinite, or ends far above the loss of the null model."""
    settings = objective.run.settings
    # A linear regression learns the response in units of its standard deviation.
    variance = 2 * objective.null_loss / objective.weight_sum if objective.family.quadratic else 1.0
    unit = float(np.sqrt(variance)) or 1.0
    training = OnlineTraining(objective, held_out if settings.online.patience else None, unit)
    coefficients, summary = training.learn(objective.null_coefficients)
    objective, coefficients = objective.with_zeros_held(coefficients)  # 5.
    point = objective.at(coefficients)
    check(objective, point.loss, summary)
    return Solution(objective, point, online=summary)


def check(objective: Objective, loss: float, summary: dict) -> None:
    """Raise UserError if the solver ended far above the null model, where it began. The scores of a binomial response are
    bounded. So its loss stays finite even if the steps are far too long."""
    saturated = float(objective.counts["saturated"])
    deviance, null_deviance = 2 * (loss - saturated), 2 * (objective.null_loss - saturated)
    if deviance <= FAR_ABOVE_NULL * null_deviance:
        return
    solver, rate = summary["solver"], summary["learning_rate"]
    raise UserError(
        f"models.{objective.design.model}.online.learning_rate: with {rate:g} the steps are too long: {solver} began at a "
        f"deviance of {null_deviance:.4g} and has come to {deviance:.4g}\n  make learning_rate smaller, such as "
        f"{min(rate / 10, OPTIMISERS[solver].learning_rate):g}"
    )


class _Call(NamedTuple):
    """A call of `updates` with these arguments. It learns from blocks with `counts` rows."""

    updates: Updates
    arguments: tuple
    counts: np.ndarray


class OnlineTraining:
    """The training of coefficients batch by batch, until `held_out` rows say when to stop. The response is learnt in multiples of
    `unit`."""

    def __init__(self, objective: Objective, held_out: Workload | None, unit: float):
        run, self.unit, self.workload, self.held_out = objective.run, unit, objective.workload, held_out
        self.executor, self.reporter, settings = run.executor, run.reporter, run.settings.online
        self.settings = settings
        self.solver = run.settings.online_solver or ""
        self.optimiser = OPTIMISERS[self.solver]
        design = objective.design
        self.where = f"models.{design.model}.online"
        self.rows = objective.workload.rows
        self.batch_size = settings.batch_size or default_batch_size(self.rows)
        if self.batch_size > self.rows:
            raise UserError(
                f"{self.where}.batch_size: a batch has {self.batch_size:,} rows, but there are only {self.rows:,} "
                f"training rows\n  make it {self.rows:,} or less"
            )
        self.rate = settings.learning_rate or self.optimiser.learning_rate
        self.decay = self.optimiser.decay if settings.decay is None else settings.decay
        l1, l2 = design.penalty.l1 / unit, design.penalty.l2
        self.penalty = Penalty(l1 * design.penalised_coefficients, l2 * design.penalised_coefficients)
        self.schedule = Schedule(
            self.rate, self.decay, 0.0, 1 / self.rows, l1, l2, objective.weight_sum / self.rows, unit
        )
        self.updates: dict[Signature, Updates] = {}
        self.steps = self.repeated = self.pushes = 0
        steps_of_an_epoch = -(-self.rows // self.batch_size)
        self.report_every = min(settings.report_every, max(steps_of_an_epoch // REPORTS_OF_AN_EPOCH, 1))
        self.next_report = self.report_every
        self.shared: Shared | None = None
        self.held_out_weight = 0.0

    def learn(self, start: np.ndarray) -> tuple[np.ndarray, dict]:
        """The coefficients after training from `start` [p], and the entry `online` of fit.json. Raises UserError if the loss
        becomes infinite."""
        began = time.perf_counter()
        state = self._state(start / self.unit)
        best, best_loss, best_epoch, epoch, loss, tested = start, np.inf, 0, 0, np.inf, []
        for epoch in range(1, self.settings.epochs + 1):
            epoch_began, steps = time.perf_counter(), self.steps
            learnt = self.executor.remember(f"{self.solver}, epoch {epoch}", lambda: self._epoch(epoch, state))  # noqa: B023
            state, coefficients, loss = learnt["state"], learnt["coefficients"], float(learnt["loss"])
            self.steps, self.repeated = int(learnt["steps"]), int(learnt["repeated"])
            seconds = time.perf_counter() - epoch_began
            rate = self.rows / seconds if seconds else 0.0
            line = f"{self.solver}: epoch {epoch} of {self.settings.epochs}, step {self.steps:,}: loss {loss:.6g} a row"
            if self.held_out:
                tested.append(self._held_out_loss(coefficients))
                line += f", {tested[-1]:.6g} held out"
                self.reporter.record(self.steps, {"online/loss held out": tested[-1]})
            self.reporter.tell(f"{line}; {rate:,.0f} rows a second")
            self.reporter.advance(epoch, self.settings.epochs)
            if not tested or tested[-1] < best_loss:
                best, best_loss, best_epoch = coefficients, tested[-1] if tested else np.inf, epoch
            if self.steps == self.settings.last_step or self.steps == steps:  # 4.
                break
            if tested and epoch - best_epoch >= (self.settings.patience or self.settings.epochs):
                self.reporter.tell(
                    f"{self.solver}: no better than after epoch {best_epoch}, whose coefficients are reported"
                )
                break
        seconds = time.perf_counter() - began
        self.reporter.tell(f"{self.solver}: {self.steps:,} steps in {seconds:.1f} s, final loss {loss:.6g} a row")
        summary = {
            "solver": self.solver,
            "synchronous": self.settings.synchronous,
            "steps": self.steps,
            "epochs": best_epoch,
            "learning_rate": self.rate,
            "decay": self.decay,
            "batch_size": self.batch_size,
            "loss_a_row": loss,
            "loss_a_row_held_out": best_loss if tested else None,
            "calls_repeated": self.repeated,
        }
        return best, summary

    def refuse_divergence(self, epoch: int) -> None:
        """Raise UserError because the loss is not finite."""
        raise UserError(
            f"{self.where}.learning_rate: the loss is not finite in epoch {epoch}, after {self.steps:,} steps: with "
            f"{self.rate:g} the steps are too long\n"
            f"  make learning_rate smaller, such as {self.rate / 10:g}; what was learnt until epoch {epoch - 1} is "
            f"kept in {self.executor.kept}"
        )

    def _state(self, weights: np.ndarray) -> np.ndarray:
        """The state of the optimiser at these weights, [slots, coefficients + 1]."""
        slots = np.stack(self.optimiser.start(weights, self.rate, self.penalty))
        return np.hstack([slots, np.zeros((len(slots), 1))])

    def _held_out_loss(self, coefficients: np.ndarray) -> float:
        assert self.held_out
        design = self.held_out.design
        if not self.held_out_weight:
            counts = self.held_out.sum(self.executor, "counts", design.by_term(np.zeros(design.size)))
            self.held_out_weight = float(counts["weight_sum"])
        sums = self.held_out.sum(self.executor, "gradient", design.by_term(coefficients))
        return float(sums["loss"] / self.held_out_weight)

    def _epoch(self, epoch: int, state: np.ndarray) -> dict[str, np.ndarray]:
        """Run an epoch. Returns the `state` after it, the `coefficients`, the mean `loss` of a row before learning from it, and
        the total numbers of `steps` and of `repeated` calls."""
        calls = self._calls(epoch)
        progress = _Progress(self, epoch)
        learn = self._in_rounds if self.settings.synchronous else self._each_on_its_own
        state, means = learn(calls, state, progress)
        return self._learnt(state, means, [call.counts for call in calls], progress)

    @property
    def _calls_in_a_round(self) -> int:
        return self.settings.parts if self.settings.synchronous else CALLS_PER_WORKER * self.executor.workers

    def _calls(self, epoch: int) -> list["_Call"]:
        """1. The calls of an epoch."""
        random = np.random.default_rng([self.settings.seed, epoch]) if self.settings.shuffle else None
        steps, rows = self.steps, 0
        calls = []
        for signature, (order, paths, checksums, blocks, counts, *tables) in self.workload.epoch(
            random, self._calls_in_a_round
        ):
            if self.settings.last_step and steps + self.steps_of(counts).sum() > self.settings.last_step:
                counts = self._cut(counts, self.settings.last_step - steps)
                order = orders(counts.tolist(), random)
            if counts.any():
                schedule = np.array(self.schedule._replace(epochs=epoch - 1 + rows / self.rows))
                arguments = (schedule, order, paths, checksums, blocks, counts, *tables)
                calls.append(_Call(self._updates(signature), arguments, counts))
                rows += np.sum(counts)
                steps += int(self.steps_of(counts).sum())
        return calls

    def _in_rounds(
        self, calls: list["_Call"], state: np.ndarray, progress: "_Progress"
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """2. The state after synchronous rounds, and the mean weights of each call. The calls of a round begin at the same
        state."""
        means = []
        for first in range(0, len(calls), self._calls_in_a_round):
            of_round = calls[first : first + self._calls_in_a_round]
            tasks = [(call.updates.task, call.arguments) for call in of_round]
            differences = []
            for call, vector in zip(of_round, self.executor.map(tasks, {"state": state}), strict=True):
                difference, rest = np.split(vector, [state.size])
                losses, weights, mean = call.updates.unpack(rest)
                finite = np.all(np.isfinite(difference))
                progress.add([(call.counts, losses, weights if finite else weights * np.nan)])
                differences.append(difference.reshape(state.shape))
                means.append(mean)
            state = state + np.average(differences, axis=0, weights=[call.counts.sum() for call in of_round])
        return state, means

    def _each_on_its_own(
        self, calls: list["_Call"], state: np.ndarray, progress: "_Progress"
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """2. The state after asynchronous calls, and the mean weights of each call. Each call begins at the shared state."""
        means = []
        if self.shared is None:
            self.shared = self.executor.share(state)
        tasks = [(call.updates.task, call.arguments) for call in calls]
        for done_in_a_row in self.executor.update(tasks, self.shared, 1 / self.executor.workers):
            unpacked = [(calls[place].counts, *calls[place].updates.unpack(rest)) for place, rest in done_in_a_row]
            progress.add([of_call for *of_call, _ in unpacked])
            means += [mean for *_, mean in unpacked]
        state, pushes = self.shared.read()
        self.repeated += pushes - self.pushes - len(calls)
        self.pushes = pushes
        return state, means

    def _learnt(
        self, state: np.ndarray, means: list[np.ndarray], rows: list[np.ndarray], progress: "_Progress"
    ) -> dict[str, np.ndarray]:
        if self.settings.average and not self.workload.design.penalty.l1:  # 3.
            # Over the second half of the calls: Polyak & Juditsky, SIAM J. Control Optim. 30 (1992).
            first = len(means) // 2
            weights = np.average(means[first:], axis=0, weights=[counts.sum() for counts in rows[first:]])
        else:
            weights = self.optimiser.weights(list(state[:, :-1]), self.rate, state[0, -1], self.penalty)
        return {
            "state": state,
            "coefficients": weights * self.unit,
            "loss": np.array(progress.loss * self.unit**2),
            "steps": np.array(self.steps),
            "repeated": np.array(self.repeated),
        }

    def steps_of(self, counts: np.ndarray) -> np.ndarray:
        """The number of steps in blocks with these numbers of rows."""
        return -(-counts // self.batch_size)

    def _cut(self, counts: np.ndarray, steps: int) -> np.ndarray:
        """The counts of rows in the first `steps` steps."""
        before = np.cumsum(self.steps_of(counts)) - self.steps_of(counts)
        left = np.clip(steps - before, 0, None) * self.batch_size
        return np.minimum(counts, left).astype(np.int32)

    def _updates(self, signature: Signature) -> Updates:
        if signature not in self.updates:
            design = self.workload.design
            self.updates[signature] = Updates(design, signature, self.solver, self.batch_size)
        return self.updates[signature]


def default_batch_size(rows: int) -> int:
    """The default batch size: a power of 2 near the number of rows / STEPS_AN_EPOCH.

    >>> default_batch_size(300), default_batch_size(4_000_000), default_batch_size(100_000_000)
    (300, 2048, 4096)
    """
    near = 2 ** round(math.log2(max(rows / STEPS_AN_EPOCH, 1)))
    return min(max(near, SMALLEST_BATCH), LARGEST_BATCH, rows)


STEPS_AN_EPOCH = 2000
"""Steps in an epoch with the default batch size."""

SMALLEST_BATCH, LARGEST_BATCH = 512, 4096
"""Limits of the default batch size. On 10M rows and 8,800 coefficients, a row in batches of 4,096 costs two thirds of a row in
batches of 512."""


class _Progress:
    """The progress of an epoch. It is reported every `report_every` steps."""

    def __init__(self, training: OnlineTraining, epoch: int):
        self.training, self.epoch, self.began = training, epoch, time.perf_counter()
        self.rows, self.first_step = 0, training.steps
        self.whole, self.window = np.zeros(2), np.zeros(2)

    @property
    def loss(self) -> float:
        """Mean loss of a row so far."""
        return float(self.whole[0] / self.whole[1])

    def add(self, calls: Sequence[Sequence[np.ndarray]]) -> None:
        """Add calls that ended together. Each call has the rows of its blocks, their losses and their weights."""
        training = self.training
        self.rows += sum(int(counts.sum()) for counts, _, _ in calls)
        for counts, losses, weights in calls:
            if not np.all(np.isfinite([losses, weights])):
                training.refuse_divergence(self.epoch)
            ends = training.steps + np.cumsum(training.steps_of(counts))
            first = 0
            while first < len(ends):
                # Up to the block with the next report.
                last = min(int(np.searchsorted(ends, training.next_report)) + 1, len(ends))
                sums = np.array([losses[first:last].sum(), weights[first:last].sum()])
                self.whole, self.window = self.whole + sums, self.window + sums
                training.steps, first = int(ends[last - 1]), last
                if training.steps >= training.next_report:
                    self._report()

    def _report(self) -> None:
        training = self.training
        every = training.report_every
        loss = training.unit**2 * self.window[0] / self.window[1]
        rate = self.rows / (time.perf_counter() - self.began)
        batch = training.steps - self.first_step
        training.reporter.note(
            f"step {training.steps:,}, epoch {self.epoch}, batch {batch:,}: loss {loss:.6g}, {rate:,.0f} rows a second"
        )
        training.reporter.record(training.steps, {"online/loss": loss, "online/rows a second": rate})
        training.next_report = (training.steps // every + 1) * every
        self.window = np.zeros(2)
