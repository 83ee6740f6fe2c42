"""Lab engine, grader and contents."""
