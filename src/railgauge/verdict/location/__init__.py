"""What the locator takes from campaigns, tables and logs."""
