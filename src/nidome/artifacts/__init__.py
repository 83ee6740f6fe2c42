"""What gets installed: the lock, the providers and the content-addressed cache."""
