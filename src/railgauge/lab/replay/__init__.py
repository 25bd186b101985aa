"""Stand-ins for GPU programs, for rehearsals in the lab. All that they print says SIMULATED."""
