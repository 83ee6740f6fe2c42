"""What a host must have, as data."""
