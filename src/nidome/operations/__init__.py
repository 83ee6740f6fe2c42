"""Sequences that are not a state: resumable named steps, each probed before and after."""
