"""What tools share: lines, numbers, TCP rows, bounds of options, JSON, sides, versions, files."""
