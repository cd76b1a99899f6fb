"""Privacy guarantees: what a claim states and what an accountant bounds."""

from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

from pydantic import Field

from dpaudit.models import AboveOne, Enlarged, Fraction, Model, NonNegative, Reduced

#: Figures of a guarantee: an exact number, such as Fraction(1, 3), is rounded up, since the guarantee of the
#: smaller double is stronger. An order is rounded down: what holds at an order holds at every smaller one.
Upper = Annotated[NonNegative, Enlarged]
UpperFraction = Annotated[Fraction, Enlarged]
Order = Annotated[AboveOne, Reduced]


class PureDP(Model):
    """epsilon-differential privacy (Dwork, McSherry, Nissim, Smith 2006)."""

    kind: Literal["pure-dp"] = "pure-dp"
    epsilon: Upper

    def __str__(self) -> str:
        return f"{self.epsilon:.6g}-DP"


class ApproxDP(Model):
    """(epsilon, delta)-differential privacy (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006)."""

    kind: Literal["approx-dp"] = "approx-dp"
    epsilon: Upper
    delta: UpperFraction

    def __str__(self) -> str:
        return f"({self.epsilon:.6g}, {self.delta:.3g})-DP"


class ZCDP(Model):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016)."""

    kind: Literal["zcdp"] = "zcdp"
    rho: Upper

    def __str__(self) -> str:
        return f"{self.rho:.6g}-zCDP"


class RDP(Model):
    """(alpha, epsilon)-Renyi differential privacy (Mironov 2017)."""

    kind: Literal["rdp"] = "rdp"
    alpha: Order
    epsilon: Upper

    def __str__(self) -> str:
        return f"({self.alpha:.6g}, {self.epsilon:.6g})-RDP"


class GDP(Model):
    """mu-Gaussian differential privacy (Dong, Roth, Su 2022)."""

    kind: Literal["gdp"] = "gdp"
    mu: Upper

    def __str__(self) -> str:
        return f"{self.mu:.6g}-GDP"


#: Where epsilon is stated if no delta is asked for.
DELTAS: Final = (1e-5, 1e-6, 1e-9)

AnyGuarantee: TypeAlias = PureDP | ApproxDP | ZCDP | RDP | GDP

#: The same union as a field of a model, told apart by its kind.
Guarantee = Annotated[AnyGuarantee, Field(discriminator="kind")]


def leading_figure(guarantee: AnyGuarantee) -> float:
    """The number that a guarantee is about: rho, mu or epsilon."""
    match guarantee:
        case ZCDP():
            return guarantee.rho
        case GDP():
            return guarantee.mu
        case PureDP() | ApproxDP() | RDP():
            return guarantee.epsilon
        case _:
            assert_never(guarantee)


def figures(guarantee: AnyGuarantee) -> dict[str, Any]:
    """The guarantee's numbers under their names, without its kind."""
    return {name: value for name, value in guarantee.to_json().items() if name != "kind"}
