"""Railgauge with other versions of Slurm, MPI and the tools, and on another user's cluster."""
