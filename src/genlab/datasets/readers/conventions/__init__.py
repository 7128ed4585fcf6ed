"""What people exchange: a module per convention, from files to pictures or tasks by name."""
