"""What results are made of. Pure: nothing here knows ReFrame, Slurm or a tool."""
