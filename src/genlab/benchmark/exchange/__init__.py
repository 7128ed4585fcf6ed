"""Files for other programs: ratings, votes and results, as CSV and as Label Studio's JSON."""
