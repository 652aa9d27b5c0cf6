"""An executor on a group of peers, of which the chief is the first; and the work of the other peers.

The work is done in rounds, because all members of a group must take part in a collective. The chief sends the state and a
piece of work to each peer, and does the first piece itself. It gathers the results, and adds them in an order that depends
only on the order of the calls (`reduction.pairwise`). So a sum is the same bit for bit for any number of peers.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tfglm import command, tensorflow_setup
from tfglm.distribute import answers, tasks, wire
from tfglm.distribute.designs import Designs
from tfglm.distribute.executor import Call, State
from tfglm.distribute.group import Message, ProcessGroup
from tfglm.distribute.local import ExecutorInRounds
from tfglm.distribute.tasks import Task
from tfglm.errors import UserError
from tfglm.roles import announce, ending, peers, probe
from tfglm.roles.announce import Announcement
from tfglm.roles.watchdog import Supervisors
from tfglm.roles.watched import Watched

with tensorflow_setup.quiet():
    import tensorflow as tf

MOST_TOGETHER = 64
"""Calls; a request has a header of a megabyte at most."""

SECONDS_FOR_A_REASON = 3.0
"""Seconds in which the process that started the peers may report which of them has ended: it looks five times a second."""


def connect(members: Sequence[Announcement], roster: Path, watched: Watched) -> "PeersExecutor":
    """An executor of this process, the chief, and the peers that have announced themselves; designs are put beside their
    roster. Raises UserError if one of them is lost before all have met."""
    designs = Designs.beside(roster.parent)
    designs.remove()  # designs of an earlier fit
    port = peers.Port()
    addresses = announce.addresses(members, "peer")
    addresses.insert(0, f"{peers.own_address_towards(addresses)}:{port.number}")
    peers.Order(members[0].run, tuple(addresses), {}).write(roster.parent)
    watched.over(members)
    port.release()
    reach = Reach(members, roster, watched)
    with reach():
        group = ProcessGroup(addresses, 0)
    ending.end_on_signals()
    return PeersExecutor(group, designs, reach)


def follow(order: peers.Order, index: int, port: peers.Port, designs: Designs) -> None:
    """Do this peer's part of the chief's requests, until the group ends: the fit is complete, or a process is lost. The
    process that started this peer knows which of the two, and ends it."""
    port.release()
    try:
        group = ProcessGroup(order.addresses, index)
        ending.end_on_signals()
        while True:
            result = part(group.hear(), index, designs)
            if result is not None:
                group.answer(result)
    except tf.errors.OpError as error:
        command.log(f"the group is no more: {error.message.splitlines()[0]}")


class Reach:
    """Inside `reach()` the chief waits for its peers: its watchdog counts the seconds, and an error of TensorFlow becomes a
    UserError that says who is lost."""

    def __init__(self, members: Sequence[Announcement], roster: Path, watched: Watched) -> None:
        self._members, self._supervisors, self._waiting = members, Supervisors([roster]), watched.waiting

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            with self._waiting():
                yield
        except tf.errors.OpError as error:
            command.log(f"TensorFlow says: {error.message}")
            raise UserError(
                f"the fit cannot continue without all its peers ({self._why()}). Run the same command again: the fit "
                "resumes from the last sum that it completed"
            ) from error

    def _why(self) -> str:
        """What whoever has started the peers says of those that are lost; else which of them do not answer, or all of them."""
        deadline = time.monotonic() + SECONDS_FOR_A_REASON
        while time.monotonic() < deadline:
            if why := self._supervisors.failures({"peer"}):
                return "; ".join(why)
            time.sleep(0.1)
        with ThreadPoolExecutor(len(self._members)) as asking:
            answers = list(asking.map(probe.ask, [member.address for member in self._members]))
        silent = [member for member, answer in zip(self._members, answers, strict=True) if answer != "answers"]
        return "; ".join(member.place for member in silent or self._members)


def request(pieces: Sequence[tuple[Task, Sequence[Call]]], state: State) -> Message:
    """The message of the chief in a round: a header for each piece; then, as words, the lengths of the state and of the
    calls of each piece, the state and the calls."""
    shapes = {name: np.shape(value) for name, value in state.items()}
    headers = [wire.header(task, shapes, [wire.kinds(call) for call in calls]) for task, calls in pieces]
    parts = [wire.vector_of(state).view(np.int64)]
    parts += [wire.pack([array for call in calls for array in call]) for _, calls in pieces]
    return Message("\n".join(headers), np.concatenate([[len(part) for part in parts], *parts]))


def part(asked: Message, index: int, designs: Designs) -> Message | None:
    """Return the answer of the process with this number to a `request`: a vector, or the text of an error. None if there is
    no piece for this process."""
    headers = asked.text.split("\n")
    if index >= len(headers):
        return None
    lengths, content = np.split(asked.words, [len(headers) + 1])
    state, *words_of_pieces = np.split(content, np.cumsum(lengths)[:-1])
    try:
        vector = answers.run(headers[index].encode(), state.view(np.float64), words_of_pieces[index], designs)
    except UserError as error:
        return Message(str(error), np.zeros(0, np.int64))
    return Message("", np.ascontiguousarray(vector, np.float64).view(np.int64))


class PeersExecutor(ExecutorInRounds):
    """The chief and its peers. Results of tasks are not stored, so a lost process ends the fit."""

    def __init__(self, group: ProcessGroup, designs: Designs, reach: Reach) -> None:
        self._group, self._designs, self._reach = group, designs, reach
        self.workers = group.size

    def sum(self, task: Task, calls: Sequence[Call], state: State) -> np.ndarray:
        """See `Executor.sum`. Results travel at 100 MB a second: each process adds up as many calls as it can. Raises
        UserError if a peer is lost, or if the task itself fails."""
        if not calls:
            raise ValueError("a sum needs at least one call")
        division = tasks.divide(task, calls, self.workers, MOST_TOGETHER)
        return division.added(self._sums(division.pieces(calls), state))

    def map(self, calls: Sequence[tuple[Task, Call]], state: State) -> Iterator[np.ndarray]:
        return self._sums([(task, [call]) for task, call in calls], state)

    def _sums(self, pieces: Sequence[tuple[Task, Sequence[Call]]], state: State) -> Iterator[np.ndarray]:
        """The sum of `task(state, *call)` over the calls of each piece, (task, calls)."""
        for first in range(0, len(pieces), self.workers):
            yield from self._round(pieces[first : first + self.workers], state)

    def _round(self, pieces: Sequence[tuple[Task, Sequence[Call]]], state: State) -> list[np.ndarray]:
        """Run one round: a piece for each process, or for fewer."""
        for task, _ in pieces:
            self._designs.put(task.design)
        asked = request(pieces, state)
        with self._reach():
            self._group.tell(asked)
        own = part(asked, 0, self._designs)
        assert own is not None
        answers = [own]
        for index in range(1, len(pieces)):
            with self._reach():
                answers.append(self._group.answer_of(index))
        for index, answer in enumerate(answers):
            if answer.text:
                whose = f"a task failed on peer {index - 1}: " if index else ""
                raise UserError(f"{whose}{answer.text}")
        return [answer.words.view(np.float64) for answer in answers]
