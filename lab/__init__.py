"""Real Linux senders over emulated networks, with the kernel's own window as truth (docs/lab.md)."""
