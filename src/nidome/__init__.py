"""Nidome: declare a Kubernetes cluster, converge to it, prove that the second run changed nothing."""

__all__ = ["__version__"]

__version__ = "0.1.0"
