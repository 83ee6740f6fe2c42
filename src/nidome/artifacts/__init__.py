"""What gets installed: the lock, the providers and the content-addressed cache."""

from nidome.artifacts.obtain import cached, obtain, user_images
from nidome.artifacts.settings import Artifact, Settings, default_cache
from nidome.artifacts.store import Store

__all__ = ["Artifact", "Settings", "Store", "cached", "default_cache", "obtain", "user_images"]
