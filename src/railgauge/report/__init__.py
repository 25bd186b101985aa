"""What a verdict looks like to people and to other programs."""
