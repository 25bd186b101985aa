"""What `make package` builds with."""
