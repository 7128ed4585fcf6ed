"""Goals: sentences, what is read in them, and what is enforced."""
