"""The live part on control-plane hosts."""
