"""The firmware gate: which nodes may take jobs, by what was last accepted of them.

A node with changed firmware is held (drained, `railgauge.node.gate`), tested inside a reservation
and returned, or kept out with a reason that names the part (`railgauge.gate.run`; its campaigns:
`railgauge.gate.testing`); a rolling update takes nodes out in batches (`railgauge.gate.roll`).
Slurm's own state says what is held: a node that is drained with a reason beginning `railgauge: `.
The store says what was accepted (`railgauge.cluster.store`), and how far runs and updates have come
(`railgauge.gate.journal`).
"""
