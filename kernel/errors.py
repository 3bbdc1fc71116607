"""Why the kernel does not run a controller."""


class KernelError(Exception):
    """Base of what this package raises on purpose."""


class KernelUnavailable(KernelError):
    """This machine, user or kernel cannot run a controller: one line says what is missing."""


class BuildFailed(KernelError):
    """The compiler did not make an object of a controller."""


class LoadFailed(KernelError):
    """The kernel, or its verifier, refused a controller."""


class NotLoaded(KernelError):
    """No controller of that name is loaded."""
