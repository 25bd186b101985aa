"""A verdict for other programs: the same facts as in the page, a module a format."""
