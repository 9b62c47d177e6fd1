"""Programs that use the acker."""
