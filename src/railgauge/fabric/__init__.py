"""An InfiniBand subnet: read by reading commands alone, checked, and used to locate."""
