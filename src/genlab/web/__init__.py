"""What the pages and the API show."""
