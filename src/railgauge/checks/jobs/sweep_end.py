"""How the job of a sweep ended: what Slurm says of it, and what its conductor recorded."""

from __future__ import annotations

import dataclasses

from railgauge.checks.framework import protections
from railgauge.checks.framework.protections import JobEvidence
from railgauge.checks.jobs.sweep_output import SweepOutput
from railgauge.model.failure import DISTURBED, ENVIRONMENT, LOST, UNREACHED, Failure
from railgauge.node.transport import results_file
from railgauge.slurm import ends
from railgauge.slurm import nodes as slurm_nodes


@dataclasses.dataclass(frozen=True)
class SweepEnd:
    """The end of a job, by the evidence of it as a whole. `conductor` is the node of its driver,
    which `by_rounds` measures round by round.
    """

    job: JobEvidence
    output: SweepOutput
    conductor: str
    by_rounds: bool

    @property
    def came_to_its_end(self) -> bool:
        """Whether the job ended by itself, by its conductor alone."""
        end = self.output.recorded.end
        return self.job.job_state == "COMPLETED" and end is not None and not end["why"]

    def was_cut(self, event: results_file.Event) -> bool:
        """Whether somebody ended the job, and with it the tools, in the round of this place. What
        failed in an earlier round failed by itself.
        """
        by_others = self.by_rounds and self.job.job_state not in ends.OF_THE_NODES
        return by_others and event["round"] not in self.output.recorded.rounds

    def lost(self, node: str) -> list[Failure]:
        """The failure of a node whose agent did not come, or went away."""
        recorded = self.output.recorded
        why = f"{node}: {recorded.lost[node]}"
        if recorded.lost[node] == results_file.TERMINATED:
            return [Failure(DISTURBED, f"not measured: {why}", (node,))]
        if (slurm_words := ends.out_of_memory_on(self.job.job_error, node)) is not None:
            step = "a larger memory limit of the partition's jobs: DefMemPerNode, MaxMemPerNode"
            return [
                Failure(
                    ENVIRONMENT, f"Slurm ended the agent of {node}: {slurm_words}", (node,), step
                )
            ]
        if node in recorded.joined:
            failed = ends.launch_failed_on(self.job.job_error)
            if failed and recorded.joined.keys() <= recorded.lost.keys():
                # Told so late that the rounds had begun, srun ends the tasks that it has started.
                message = f"not measured: {why}; srun started no task on {', '.join(failed)}"
                return [Failure(DISTURBED, message, (node,))]
            launcher = self.conductor
            silent = recorded.lost[node].startswith(
                (results_file.CONNECTION_ENDED, results_file.NO_ANSWER)
            )
            was_there = silent and ends.lost_its_connection(self.job.job_error, node)
            if was_there and node != launcher and not slurm_nodes.dead([node]):
                message = f"{why}; its agent was there, and lost the conductor on {launcher}"
                return [Failure(UNREACHED, message, (launcher, node), _reach(launcher, node))]
            step = f"scontrol show node {node}; dmesg there: was it started again, out of memory?"
            return [Failure(LOST, why, (node,), step)]
        if (lacks := protections.lacks(self.job, node)) is not None:
            return [lacks]
        if node in ends.launch_failed_on(self.job.job_error) and not slurm_nodes.dead([node]):
            launcher = self.conductor
            message = f"{why}; {node} answers Slurm's controller"
            return [Failure(UNREACHED, message, (launcher, node), _reach(launcher, node))]
        if not recorded.joined and len(recorded.lost) > 1:
            # The conductor's own agent is as near as can be: the launch itself came to nothing.
            message = f"not measured: {why}, nor did any other that srun was to start"
            return [Failure(DISTURBED, message, (node,))]
        return [Failure("silent-node", why, (node,), f"scontrol show node {node}")]

    def failures(self) -> list[Failure]:
        """The failures of a job that did not come to its own end."""
        end, unreadable = self.output.recorded.end, self.output.unreadable
        if unreadable:
            failures = protections.failures_of_job(self.job, began=True)
            return [*failures, Failure("output", unreadable)]
        if end is None and not self.output.recorded.places:
            # Nothing of it began.
            return protections.failures_of_job(self.job, began=False)
        failures = protections.failures_of_job(self.job, began=True)
        if not failures and (end is None or end["why"]):
            why = end["why"] if end else "it left no end"
            failures.append(Failure("no-exit-line", f"the conductor of the sweep: {why}"))
        return failures


def _reach(launcher: str, node: str) -> str:
    return f"can {launcher} reach {node}? ping, and ip route get; then the other way round"
