"""Interactive chat on virtual tensors."""

__version__ = "0.1.0"
