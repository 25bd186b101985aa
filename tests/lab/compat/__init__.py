"""Railgauge with other versions of Slurm, MPI and the tools, and on somebody else's cluster."""
