"""Read what people wrote, keeping where each value was written."""
