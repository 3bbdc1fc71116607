"""The project's controllers as congestion controls of the Linux kernel (docs/kernel.md)."""
