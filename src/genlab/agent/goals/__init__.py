"""Goals: the sentence of a user, how it is read, and what of it is enforced."""
