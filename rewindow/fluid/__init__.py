"""The fluid model of multipath congestion control (Peng, Walid, Hwang, Low, ToN 2016, as the TCCC paper restates it).

`model` gives an algorithm's k_r and phi_r, `read_network` and `solve` the equilibria of a network with the Jacobian's
eigenvalues there, `spans` and `orders_at` where the papers' orders of friendliness and responsiveness hold, and
`checked_cells` the papers' tables with their misprints. docs/fluid.md explains the model. `import rewindow` does not
load this package, because it loads SciPy.
"""

from rewindow.errors import NetworkUnreadable
from rewindow.fluid.equilibrium import Equilibrium, Failure, Solution, System, Trajectory, solve, trajectory
from rewindow.fluid.models import ALGORITHMS, WITHOUT_MODEL, Model, model
from rewindow.fluid.network import Link, Network, Route, User, parse_network, read_network
from rewindow.fluid.orders import CLAIMS, Claim, Order, Span, orders_at, responsiveness, spans
from rewindow.fluid.table import CheckedCell, checked_cells

__all__ = [
    "ALGORITHMS",
    "CLAIMS",
    "WITHOUT_MODEL",
    "CheckedCell",
    "Claim",
    "Equilibrium",
    "Failure",
    "Link",
    "Model",
    "Network",
    "NetworkUnreadable",
    "Order",
    "Route",
    "Solution",
    "Span",
    "System",
    "Trajectory",
    "User",
    "checked_cells",
    "model",
    "orders_at",
    "parse_network",
    "read_network",
    "responsiveness",
    "solve",
    "spans",
    "trajectory",
]
