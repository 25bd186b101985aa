"""What the modules of all tools share: lines, numbers, bounds of options, JSON, sides, versions."""
