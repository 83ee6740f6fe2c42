"""Observe, diff, plan, apply, observe again."""
