"""Privacy guarantees, which claims state and accountants bound."""

from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

from pydantic import Field

from dpaudit.models import AboveOne, Enlarged, Fraction, Model, NonNegative, Reduced

#: Figures of a guarantee: an exact number, for example Fraction(1, 3), is rounded up, since the guarantee of
#: the smaller double is stronger. An order is rounded down: RDP at an order implies RDP at every smaller one.
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


#: The deltas for which epsilon is stated by default.
DELTAS: Final = (1e-5, 1e-6, 1e-9)

AnyGuarantee: TypeAlias = PureDP | ApproxDP | ZCDP | RDP | GDP

#: The same union as a field of a model, discriminated by `kind`.
Guarantee = Annotated[AnyGuarantee, Field(discriminator="kind")]


def leading_figure(guarantee: AnyGuarantee) -> float:
    """Return the guarantee's main number: rho, mu or epsilon."""
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
    """Return the guarantee's numbers by name, without its kind."""
    return {name: value for name, value in guarantee.to_json().items() if name != "kind"}
